package e2e

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/workflow"

	"github.com/holdfast-dev/holdfast/agent"
	"github.com/holdfast-dev/holdfast/agent/model/modeltest"
	"github.com/holdfast-dev/holdfast/agent/tool"
	"github.com/holdfast-dev/holdfast/agui"
)

// The agents that change from one edition of the worker to another.
const (
	deployedBy = "deployed-" // has other instructions and tools; behind it there is the fleet
	scribeOf   = "scribe-"   // has other code

	editionLater = "later" // says and does more
	editionBare  = "bare"  // can't pay any more
)

func deployed() agent.Agent {
	a := agent.Agent{
		Name: deployedBy + os.Getenv(envFleet), Description: "Does errands.", Instructions: "You do errands.", Approvals: agent.Approvals{Default: agent.AskEffects},
		Tools: []tool.Tool{errandTool("pay", "Pay a bill.", tool.AtMostOnce)},
	}
	meter := errandTool("read_meter", "Read a meter.", tool.ReadOnly)
	switch os.Getenv(envEdition) {
	case editionLater:
		a.Instructions = "You do errands, and more of them."
		a.Tools = []tool.Tool{meter, errandTool("pay", "Pay a bill, or some of it.", tool.AtMostOnce)}
	case editionBare:
		a.Tools = []tool.Tool{meter}
	}
	return a
}

func scribe() agent.Agent {
	edition := os.Getenv(envEdition)
	return agent.Agent{Name: scribeOf + os.Getenv(envFleet), Description: "Signs what was agreed to.", Run: agent.Func[struct{}](
		func(ctx workflow.Context, rc *agent.RunContext[struct{}]) (*agui.Outcome, error) {
			if _, err := rc.Interrupt(ctx, agui.Interrupt{Message: new("May I sign?")}); err != nil {
				return nil, err
			}
			_, err := rc.Say("Signed by the edition " + edition + ".")
			return nil, err
		})}
}

// fleet is workers of a task queue of its own, with agents of its own: a gateway takes any worker that has an agent.
type fleet struct {
	*stack
	name       string
	deployment string
}

// newFleet is without workers. It is versioned if it has a deployment.
func newFleet(t *testing.T, versioned bool) *fleet {
	f := &fleet{stack: sharedStack(t), name: strings.ToLower(rand.Text())}
	if versioned {
		f.deployment = "deployment-" + f.name
	}
	return f
}

// deploy starts a worker of an edition, which is the current version from here on.
func (f *fleet) deploy(t *testing.T, edition, agents string) *process {
	t.Helper()
	env := []string{envRole + "=" + roleWorker, envAgents + "=" + agents, envFleet + "=" + f.name, envEdition + "=" + edition, "HOLDFAST_TASK_QUEUE=" + f.name}
	build := "build-" + rand.Text()
	if f.deployment != "" {
		env = append(env, "HOLDFAST_DEPLOYMENT="+f.deployment, "HOLDFAST_BUILD_ID="+build)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.launch("worker", self, f.workerEnv(f.temporalAddress(), f.natsURL(), env...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	if _, err := p.waitLogged(t.Context(), "worker started", anyRecord); err != nil {
		t.Fatal(err)
	}
	if f.deployment != "" {
		err = eventually(t.Context(), "make the version the current one", func(ctx context.Context) error {
			_, err := f.temporalClient.WorkerDeploymentClient().GetHandle(f.deployment).SetCurrentVersion(ctx, client.WorkerDeploymentSetCurrentVersionOptions{BuildID: build})
			return err
		})
	}
	if err == nil {
		err = eventually(t.Context(), "serve the agents", func(ctx context.Context) error {
			for _, path := range agentPaths(agents) {
				if status, body, err := get(ctx, f.url()+path, nil); err != nil || status != 200 {
					return errors.Join(errors.New(body), err)
				}
			}
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// asks runs an agent until it asks one question.
func (f *fleet) asks(t *testing.T, agent, question string) (played, interrupt) {
	t.Helper()
	p := f.play(t, agent, ask(question), question)
	asked := p.rec.asked(t)
	if len(asked) != 1 {
		t.Fatalf("it asks %+v, want one question:\n%s", asked, p.rec)
	}
	return p, asked[0]
}

// A run asks, and its worker dies. Whatever is deployed by the time of the answer takes it up: with its own instructions
// and tools, or it says by name what it lacks. So it is with Temporal's Worker Versioning on, too.
func TestDeploysWhilePaused(t *testing.T) {
	t.Parallel()
	for _, versioned := range []bool{false, true} {
		name := map[bool]string{false: "plain", true: "versioned"}[versioned]
		t.Run(name+"/the tool is there", func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, versioned)
			first := f.deploy(t, "", deployedBy+f.name)
			item := rand.Text()
			question := f.script("Pay it.", modeltest.ToolCalls(call("c1", "pay", `{"item":"`+item+`"}`)), modeltest.Text("Paid."))
			p, _ := f.asks(t, deployedBy+f.name, question)
			first.kill()
			f.deploy(t, editionLater, deployedBy+f.name)
			q := p.approved(t, deployedBy+f.name, question, yes)
			f.paid(t, item, 1)
			for n, want := range []bool{false, true} {
				body := string(q.requests[n].Body)
				for _, text := range []string{"and more of them", "or some of it", "read_meter"} {
					if strings.Contains(body, text) != want {
						t.Errorf("turn %d: whether the model is told %q: %t, want %t: %s", n+1, text, !want, want, body)
					}
				}
			}
		})
		t.Run(name+"/the tool is gone", func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, versioned)
			first := f.deploy(t, "", deployedBy+f.name)
			item := rand.Text()
			question := f.script("Pay it.", modeltest.ToolCalls(call("c1", "pay", `{"item":"`+item+`"}`)), modeltest.Text("Sorry."))
			p, _ := f.asks(t, deployedBy+f.name, question)
			first.kill()
			f.deploy(t, editionBare, deployedBy+f.name)
			q := p.approved(t, deployedBy+f.name, question, yes)
			f.paid(t, item, 0)
			if want := `"metadata":{"holdfast":{"error":true,"code":"TOOL_GONE"}}`; !strings.Contains(strings.Join(q.rec.data(), "\n"), want) {
				t.Errorf("nothing says %s:\n%s", want, q.rec)
			}
			if told := q.calls[0].result; !strings.Contains(told, "not available any more") {
				t.Errorf("the model is told %q", told)
			}
		})
		t.Run(name+"/the agent is gone", func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, versioned)
			first := f.deploy(t, "", deployedBy+f.name+","+scribeOf+f.name)
			question := f.script("Pay it.", modeltest.ToolCalls(call("c1", "pay", `{"item":"x"}`)))
			p, asked := f.asks(t, deployedBy+f.name, question)
			f.thread(t, p.input.ThreadID, "waiting") // until then the run is its version's alone, as it serves code, too
			first.kill()
			f.deploy(t, "", scribeOf+f.name)
			// Once its dead worker is missed nobody can post to the agent. The inbox needs none.
			err := eventually(t.Context(), "answer", func(ctx context.Context) error {
				path := f.url() + threadPath(p.input.ThreadID) + "/interrupts/" + segment(asked.ID)
				status, body, err := roundTrip(ctx, http.MethodPost, path, []byte(`{"status":"resolved","payload":{"approved":true}}`), nil)
				if err == nil && status != http.StatusOK {
					err = fmt.Errorf("%d %s", status, body)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			rec := f.follow(t, f.lastRun(t, p.input.ThreadID, p.input.RunID)).end(t)
			if last := rec.last(); last.Type != "RUN_ERROR" || last.Code != "AGENT_UNKNOWN" {
				t.Errorf("the run ends with %+v, want AGENT_UNKNOWN:\n%s", last, rec)
			}
		})
	}
}

// With Worker Versioning on, an agent with code of its own goes on in the code that it has begun in, also when it has
// waited for a person; the next run of it begins in what is current.
func TestCodeIsPinnedToItsVersion(t *testing.T) {
	t.Parallel()
	f := newFleet(t, true)
	signs := func(p played, asked interrupt) string {
		q := f.play(t, scribeOf+f.name, p.input.resume(t, p.client, answer(asked.ID, map[string]any{})), "?")
		return q.client.transcript()
	}
	f.deploy(t, "one", scribeOf+f.name)
	p, asked := f.asks(t, scribeOf+f.name, "?")
	f.deploy(t, "two", scribeOf+f.name)
	if got := signs(p, asked); !strings.HasSuffix(got, "assistant: Signed by the edition one.\n") {
		t.Errorf("the conversation is\n%s", got)
	}
	p, asked = f.asks(t, scribeOf+f.name, "?")
	if got := signs(p, asked); !strings.HasSuffix(got, "assistant: Signed by the edition two.\n") {
		t.Errorf("the conversation is\n%s", got)
	}
}
