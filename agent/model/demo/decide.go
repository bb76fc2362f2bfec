package demo

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/agent/model"
	"github.com/holdfast-dev/holdfast/agui"
)

const (
	// maxTargets bounds how many things one message is about.
	maxTargets = 4
	// maxReason bounds, in bytes, what of a message is quoted as a reason.
	maxReason = 200
	// contextLines is how many lines are read in front of the best hit, and
	// readLines how many in all: what fits on a screen.
	contextLines, readLines = 5, 40
)

// plan is what is said and called in one turn.
type plan struct {
	thoughts string
	says     string
	calls    []call
}

type call struct{ id, tool, arguments string }

// step is a call that was made since the user spoke, with what came of it.
type step struct {
	tool      string
	arguments map[string]any
	result    string
	failed    bool
	answered  bool
}

// mind is all that a decision rests on.
type mind struct {
	message *message
	earlier []agui.Message // before the user's last message
	tools   []*instrument
	steps   []step
	seed    string
}

func decide(req model.Request) plan {
	m := newMind(req)
	p := m.next()
	for i := range p.calls {
		c := &p.calls[i]
		sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d\x00%s\x00%s", m.seed, len(req.Messages), i, c.tool, c.arguments))
		c.id = "call_" + hex.EncodeToString(sum[:12])
	}
	if m.message.has("think", "thinking") {
		p.thoughts = m.think(p)
	}
	return p
}

func newMind(req model.Request) *mind {
	at := len(req.Messages) - 1
	for at >= 0 && req.Messages[at].Role != agui.RoleUser {
		at--
	}
	m := &mind{message: readMessage(""), tools: toolbox(req.Tools)}
	if at >= 0 {
		m.message = readMessage(req.Messages[at].Content.Text())
		m.earlier = req.Messages[:at]
		m.seed = string(req.Messages[at].ID)
	}
	place := make(map[agui.ToolCallID]int)
	for _, msg := range req.Messages[at+1:] {
		for _, c := range msg.ToolCalls {
			s := step{tool: c.Function.Name}
			_ = json.Unmarshal([]byte(c.Function.Arguments), &s.arguments) // none, if they are no object
			place[c.ID] = len(m.steps)
			m.steps = append(m.steps, s)
		}
		if i, ok := place[msg.ToolCallID]; ok && msg.Role == agui.RoleTool && !m.steps[i].answered {
			s := &m.steps[i]
			s.answered, s.failed, s.result = true, msg.Error != nil, msg.Content.Text()
			if s.failed && s.result == "" {
				s.result = *msg.Error
			}
		}
	}
	return m
}

// next decides the turn. A stage whose tool was called since the user spoke is
// over, whatever came of it: that is why there is no loop.
func (m *mind) next() plan {
	goal, missing := m.goal()
	switch {
	case goal == nil && len(m.steps) > 0:
		return plan{says: m.report(m.steps)} // it called what is offered no more
	case goal == nil && missing != "":
		return plan{says: missing}
	case goal == nil:
		return plan{says: m.introduce()}
	}
	before, after := m.lookup(goal), m.reader(goal)
	if before != nil && !m.called(before) {
		return m.turn("Let me look first.", before, m.targets(before))
	}
	if !m.called(goal) {
		targets, says := m.targets(goal), "Let me look."
		switch {
		case before != nil:
			targets, says = m.found(before, goal, targets), fmt.Sprintf("It is there. Now I call %s.", goal.name)
		case goal.acts():
			says = fmt.Sprintf("I call %s.", goal.name)
		}
		if len(targets) > 0 {
			return m.turn(says, goal, targets)
		}
		return plan{says: m.report(m.steps)}
	}
	if after != nil && !m.called(after) {
		if hit := m.bestHit(after, m.stepsOf(goal)); hit != nil {
			return m.turn("There is something. Let me read it.", after, []map[string]any{hit})
		}
	}
	return plan{says: m.report(m.steps)}
}

func (m *mind) called(i *instrument) bool { return len(m.stepsOf(i)) > 0 }

func (m *mind) stepsOf(i *instrument) []step {
	var of []step
	for _, s := range m.steps {
		if s.tool == i.name {
			of = append(of, s)
		}
	}
	return of
}

// goal chooses the tool that the message asks for. When one is asked for and an
// argument is not in the message, missing says which.
func (m *mind) goal() (goal *instrument, missing string) {
	best := 1 // one weak hint is none
	var lacking *instrument
	for _, i := range m.tools {
		exact, alike := i.calledBy(m.message)
		if i.acts() && !m.commanded(i) {
			continue
		}
		score := 0
		if exact {
			score += 5
		}
		if alike {
			score++
		}
		for _, w := range i.words {
			if m.message.has(w, w+"s", strings.TrimSuffix(w, "s")) {
				score++
			}
		}
		evidence, possible := m.evidence(i)
		if score += evidence; score <= best {
			continue
		}
		if !possible && !exact {
			continue
		}
		best, goal, lacking = score, i, nil
		if !possible {
			goal, lacking = nil, i
		}
	}
	if lacking != nil {
		return nil, m.askFor(lacking)
	}
	if goal == nil && len(m.message.topic(m.namesTool)) > 0 && !m.smallTalk() {
		for _, i := range m.tools {
			query, ok := i.param(func(p param) bool { return p.required && p.kind == kindQuery })
			if _, possible := m.evidence(i); ok && possible && !i.acts() && query.schema == "string" {
				return i, ""
			}
		}
	}
	return goal, ""
}

// commanded reports whether the message tells to use a tool that acts: its verb, or
// another word for it, stands there as a command, neither denied nor asked about.
func (m *mind) commanded(i *instrument) bool {
	words := m.message.words
	if len(words) == 0 || strings.Contains(questionWords, " "+words[0]+" ") {
		return false
	}
	return slices.ContainsFunc(append([]string{i.verb}, verbsLike[i.verb]...), func(verb string) bool {
		at := slices.Index(words, verb)
		return at >= 0 && !slices.ContainsFunc(words[max(at-2, 0):at], func(w string) bool {
			return strings.Contains(denials, " "+w+" ")
		})
	})
}

const (
	// questionWords begin a question about an act, rather than a command.
	questionWords = " did does has how is may should was what when where which who why "
	denials       = " don't don’t dont never no not without "
)

// evidence reports how much of what a tool requires stands in the message as such,
// and whether everything it requires can be filled in.
func (m *mind) evidence(i *instrument) (score int, possible bool) {
	for _, p := range i.params {
		if !p.required {
			continue
		}
		values := m.values(p)
		if len(values) == 0 {
			return 0, false
		}
		switch p.kind {
		case kindQuery, kindReason: // any message will do for those
		case kindOther:
			score++ // a name may be anything's
		default:
			score += 2
		}
	}
	return score, true
}

// lookup returns the reading tool with which to look at what an acting tool is to
// act on: one that requires nothing but an id, and the same.
func (m *mind) lookup(goal *instrument) *instrument {
	id, ok := goal.param(func(p param) bool { return p.required && p.kind == kindID })
	if !goal.acts() || !ok {
		return nil
	}
	for _, i := range m.tools {
		foreign := slices.ContainsFunc(i.params, func(p param) bool { return p.required && p.name != id.name })
		_, same := i.param(func(p param) bool { return p.required && p.name == id.name })
		if !i.acts() && same && !foreign {
			return i
		}
	}
	return nil
}

// reader returns the tool with which to read what a search has found.
func (m *mind) reader(goal *instrument) *instrument {
	if _, searches := goal.param(func(p param) bool { return p.required && p.kind == kindQuery }); !searches || goal.acts() {
		return nil
	}
	for _, i := range m.tools {
		_, reads := i.param(func(p param) bool { return p.required && (p.kind == kindFile || p.kind == kindID) })
		foreign := slices.ContainsFunc(i.params, func(p param) bool { return p.required && p.kind != kindFile && p.kind != kindID })
		if i != goal && !i.acts() && reads && !foreign {
			return i
		}
	}
	return nil
}

// found leaves out the targets that a lookup did not find.
func (m *mind) found(lookup, goal *instrument, targets []map[string]any) []map[string]any {
	id, _ := goal.param(func(p param) bool { return p.required && p.kind == kindID })
	var left []map[string]any
	for _, target := range targets {
		lost := slices.ContainsFunc(m.stepsOf(lookup), func(s step) bool {
			return s.arguments[id.name] == target[id.name] && (s.failed || !s.answered)
		})
		if !lost {
			left = append(left, target)
		}
	}
	return left
}

// turn calls a tool for each of its targets.
func (m *mind) turn(says string, i *instrument, targets []map[string]any) plan {
	p := plan{says: says}
	for _, arguments := range targets {
		data, err := json.Marshal(arguments)
		if err != nil {
			continue // only strings and numbers get here
		}
		p.calls = append(p.calls, call{tool: i.name, arguments: string(data)})
	}
	return p
}

// think says what the model is about to do.
func (m *mind) think(p plan) string {
	thoughts := fmt.Sprintf("The message has %s, and I have %s. ", counted(len(m.message.words), "words"), counted(len(m.tools), "tools"))
	if len(m.steps) > 0 {
		thoughts += fmt.Sprintf("I have made %s for it. ", counted(len(m.steps), "calls"))
	}
	if len(p.calls) == 0 {
		return thoughts + "I can answer now."
	}
	for _, c := range p.calls {
		thoughts += fmt.Sprintf("I call %s with %s. ", c.tool, c.arguments)
	}
	return strings.TrimSpace(thoughts)
}

func (m *mind) smallTalk() bool {
	return len(m.message.words) <= 3 && m.message.has("hello", "hi", "hey", "thanks", "thank", "bye", "ok", "okay", "yes", "no")
}

// namesTool reports whether a word only names a tool, as in "search for lanes".
func (m *mind) namesTool(word string) bool {
	return slices.ContainsFunc(m.tools, func(i *instrument) bool {
		return i.verb == word || word == "about" || word == "think" || slices.Contains(i.words, word)
	})
}
