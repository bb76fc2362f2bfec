package judge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// Engine looks into Temporal by its own requests.
type Engine struct{ Client client.Client }

func workflowID(thread string) string { return "default/" + thread }

// Kind is the type of the thread's newest execution, and whether it is open. A thread without any has the type "".
func (e Engine) Kind(ctx context.Context, thread string) (typ string, open bool, err error) {
	d, err := e.Client.DescribeWorkflow(ctx, workflowID(thread), "")
	if _, missing := errors.AsType[*serviceerror.NotFound](err); missing {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	return d.WorkflowType.Name, d.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}

// Recorded reports whether the thread's newest execution has an event of the type in its history.
func (e Engine) Recorded(ctx context.Context, thread string, typ enumspb.EventType) (bool, error) {
	history := e.Client.GetWorkflowHistory(ctx, workflowID(thread), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event, err := history.Next()
		if err != nil {
			return false, err
		}
		if event.EventType == typ {
			return true, nil
		}
	}
	return false, nil
}

// Result are the messages with which the thread's newest execution has closed, as they lie in its last event.
func (e Engine) Result(ctx context.Context, thread string) ([]json.RawMessage, error) {
	history := e.Client.GetWorkflowHistory(ctx, workflowID(thread), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT)
	event, err := history.Next()
	if err != nil {
		return nil, err
	}
	var left []byte
	wrapped := true
	switch event.EventType {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED:
		left = payload(event.GetWorkflowExecutionCompletedEventAttributes().GetResult())
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED:
		left, wrapped = payload(event.GetWorkflowExecutionCanceledEventAttributes().GetDetails()), false
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED:
		left, wrapped = payload(details(event.GetWorkflowExecutionFailedEventAttributes().GetFailure())), false
	default:
		return nil, fmt.Errorf("the execution closed with %s", event.EventType)
	}
	type kept struct {
		Messages []json.RawMessage `json:"messages"`
	}
	if !wrapped {
		var k kept
		return k.Messages, json.Unmarshal(left, &k)
	}
	var result struct {
		Kept kept `json:"kept"`
	}
	err = json.Unmarshal(left, &result)
	return result.Kept.Messages, err
}

func payload(p *commonpb.Payloads) []byte {
	if len(p.GetPayloads()) == 0 {
		return nil
	}
	return p.GetPayloads()[0].GetData()
}

func details(f *failurepb.Failure) *commonpb.Payloads {
	return f.GetApplicationFailureInfo().GetDetails()
}

// Open are the ids of all open executions. Temporal's list is behind by a moment.
func (e Engine) Open(ctx context.Context) ([]string, error) {
	list, err := e.Client.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: `ExecutionStatus = "Running"`})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, x := range list.Executions {
		ids = append(ids, x.Execution.GetWorkflowId())
	}
	return ids, nil
}

// SameMessages checks that two lists of messages mean the same, whatever the order of their members.
func SameMessages(what string, got, want []json.RawMessage) error {
	a, err := valueOf(got)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	b, err := valueOf(want)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if reflect.DeepEqual(a, b) {
		return nil
	}
	return fmt.Errorf("%s\n%s\nwant\n%s", what, list(got), list(want))
}

func valueOf(messages []json.RawMessage) ([]any, error) {
	all := make([]any, 0, len(messages))
	for _, m := range messages {
		var v any
		d := json.NewDecoder(bytes.NewReader(m))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

func list(messages []json.RawMessage) []byte { return bytes.Join(raw(messages), []byte("\n")) }

func raw(messages []json.RawMessage) [][]byte {
	var all [][]byte
	for _, m := range messages {
		all = append(all, m)
	}
	return all
}
