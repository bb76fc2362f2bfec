package workflows

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/holdfast-dev/holdfast/agui"
	"github.com/holdfast-dev/holdfast/eventbus/subject"
)

// requestTimeout bounds one call to Temporal's frontend. The SDK retries within it.
const requestTimeout = 5 * time.Second

// taskTimeout is after how long a worker that was killed while it decided counts as dead. It is what a killed model turn
// or tool costs, too (activities.HeartbeatTimeout); Temporal's default is twice as long.
const taskTimeout = 5 * time.Second

// Client starts and steers runs. It is what a gateway uses, and safe for concurrent use.
type Client struct {
	temporal  client.Client
	blobs     Blobs
	converter converter.DataConverter
}

// Blobs is where large payloads are kept outside of Temporal. A blobs.Store is one.
type Blobs interface {
	// Resolve returns the payload that p refers to, or p itself.
	Resolve(ctx context.Context, p *commonpb.Payload) (*commonpb.Payload, error)
}

// WithBlobs says that the connection keeps large payloads there. It returns c.
func (c *Client) WithBlobs(b Blobs) *Client {
	c.blobs = b
	return c
}

// NewClient returns a client on a connection to Temporal, which stays the caller's.
func NewClient(c client.Client) *Client { return &Client{temporal: c, converter: dataConverter} }

// WithDataConverter says how the connection converts data, if it is not as [ConnectionOptions] has it. It returns c.
func (c *Client) WithDataConverter(d converter.DataConverter) *Client {
	c.converter = d
	return c
}

// ConnectionOptions returns o with what suits runs where o leaves it open: payloads are JSON without HTML's escapes. Requests to a Temporal in one's own network,
// which is one without TLS, are not compressed: they are small, and compressing them takes a tenth of a worker's CPU time.
func ConnectionOptions(o client.Options) client.Options {
	if o.DataConverter == nil {
		o.DataConverter = dataConverter
	}
	c := &o.ConnectionOptions
	if c.GrpcCompression == nil && c.TLS == nil && o.Credentials == nil {
		c.GrpcCompression = &client.GrpcCompressionNone{}
	}
	return o
}

var (
	keyTenant = temporal.NewSearchAttributeKeyKeyword(attributeTenant)
	keyAgent  = temporal.NewSearchAttributeKeyKeyword(attributeAgent)
)

// EnsureSearchAttributes makes the search attributes of runs known to the namespace; it does nothing where they are.
// Where the connection may not do that (Temporal Cloud), the operator creates them once.
func EnsureSearchAttributes(ctx context.Context, c client.Client, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	missing := map[string]enumspb.IndexedValueType{
		attributeTenant: enumspb.INDEXED_VALUE_TYPE_KEYWORD, attributeAgent: enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"HoldfastStatus": enumspb.INDEXED_VALUE_TYPE_KEYWORD, "HoldfastWaitingSince": enumspb.INDEXED_VALUE_TYPE_DATETIME,
	}
	there, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err == nil {
		maps.DeleteFunc(missing, func(name string, _ enumspb.IndexedValueType) bool {
			_, known := there.GetCustomAttributes()[name]
			return known
		})
		if len(missing) == 0 {
			return nil
		}
		_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: namespace, SearchAttributes: missing})
	}
	var exists *serviceerror.AlreadyExists
	if err != nil && !errors.As(err, &exists) {
		return fmt.Errorf("add search attributes %s, %s, HoldfastStatus (Keyword) and HoldfastWaitingSince (Datetime) to namespace %s: %w",
			attributeTenant, attributeAgent, namespace, err)
	}
	return nil
}

// Start starts a run. It reports false, and starts nothing, while the thread has an open execution, and if the run is the
// thread's last and has come to its end: it is not to be done again because the log has lost it. If an open one waits for
// people, the error is an *[AnswerError] with [CodeThreadPaused]. The run starts with what the thread has kept.
func (c *Client) Start(ctx context.Context, tenant, agent, taskQueue, digest string, input *agui.RunAgentInput) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	id := subject.WorkflowID(tenant, string(input.ThreadID))
	kept, again, err := c.last(ctx, id, input.RunID)
	if err != nil {
		return false, fmt.Errorf("start run: %w", err)
	}
	if again {
		return false, nil
	}
	fresh := *input
	fresh.Resume = nil // what was not accepted answers nothing
	_, err = c.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                    id,
		TaskQueue:             taskQueue,
		WorkflowTaskTimeout:   taskTimeout,
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		// Never "use existing": a run that is ending would swallow the next one.
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		// Tenants whose runs wait for workers have their turns, where the server does that (matching.enableFairness). Children,
		// activities and what continues as new have it from here.
		Priority:              temporal.Priority{FairnessKey: subject.Token(tenant)},
		Memo:                  map[string]any{memoRun: input.RunID, memoDigest: digest},
		TypedSearchAttributes: temporal.NewSearchAttributes(keyTenant.ValueSet(subject.Token(tenant)), keyAgent.ValueSet(agent)),
	}, RunType, RunInput{Tenant: tenant, Agent: agent, Input: fresh, Digest: digest, Kept: kept})
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &started) {
		paused, err := c.paused(ctx, id)
		if err != nil {
			return false, fmt.Errorf("start run: %w", err)
		}
		if paused {
			return false, refuse(CodeThreadPaused, "resume", "the thread waits for answers to its interrupts")
		}
		return false, nil
	}
	var invalid *serviceerror.InvalidArgument
	if errors.As(err, &invalid) {
		return false, &refusedError{fmt.Errorf("start run: %w", err)}
	}
	if err != nil {
		return false, fmt.Errorf("start run: %w", err)
	}
	return true, nil
}

// refusedError is Temporal's answer to a request that it will never accept: one that is too large, or names a search
// attribute that the namespace lacks.
type refusedError struct{ error }

func (e *refusedError) Unwrap() error { return e.error }

// Refused tells a gateway that trying again is of no use.
func (*refusedError) Refused() bool { return true }

// Execution is the newest execution of a thread.
type Execution struct {
	Run     string // that opened it, or has gone on in it
	Digest  string // of that run's input
	Started int64  // of its last workflow run, Unix nanoseconds
	Open    bool
	// Waits: it is open, and nothing but the waiting for people is left of the run.
	Waits bool
	// Told: it has come to an end of its own, which is behind that of the run.
	Told bool
}

// Current describes the newest execution of a thread; the zero Execution if it never had one.
func (c *Client) Current(ctx context.Context, tenant, thread string) (x Execution, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	d, err := c.temporal.DescribeWorkflow(ctx, subject.WorkflowID(tenant, thread), "")
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return x, nil
	}
	if err != nil {
		return x, fmt.Errorf("describe run: %w", err)
	}
	for key, into := range map[string]*string{memoRun: &x.Run, memoDigest: &x.Digest} {
		if p, ok := d.Memo.GetFields()[key]; ok {
			if err := c.converter.FromPayload(p, into); err != nil {
				return x, fmt.Errorf("describe run: memo %s: %w", key, err)
			}
		}
	}
	x.Started, x.Open = d.WorkflowStartTime.UnixNano(), d.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	x.Waits = x.Open && d.WorkflowType.Name == WaitingType
	x.Told = told(d.Status)
	return x, nil
}

// told reports whether an execution that ended so came to its end by itself, behind that of its run.
func told(status enumspb.WorkflowExecutionStatus) bool {
	switch status {
	case enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, enumspb.WORKFLOW_EXECUTION_STATUS_CANCELED, enumspb.WORKFLOW_EXECUTION_STATUS_FAILED:
		return true
	}
	return false
}

// Cancel asks the thread's open execution to stop. It reports false if there is none.
func (c *Client) Cancel(ctx context.Context, tenant, thread string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	id := subject.WorkflowID(tenant, thread)
	// Temporal takes the cancellation of an execution that is closed for a success, so it has to be looked at before.
	d, err := c.temporal.DescribeWorkflow(ctx, id, "")
	if err == nil && d.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		err = c.temporal.CancelWorkflow(ctx, id, "")
	}
	var missing *serviceerror.NotFound
	switch {
	case errors.As(err, &missing):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("cancel run: %w", err)
	}
	return d.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}

// Ready reports whether Temporal answers.
func (c *Client) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := c.temporal.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
		return fmt.Errorf("temporal: %w", err)
	}
	return nil
}

// Temporary reports whether err is Temporal being away or starting, rather than an answer.
func Temporary(err error) bool {
	var unavailable *serviceerror.Unavailable
	var deadline *serviceerror.DeadlineExceeded
	return errors.As(err, &unavailable) || errors.As(err, &deadline) || errors.Is(err, context.DeadlineExceeded)
}
