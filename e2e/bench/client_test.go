package main

import (
	"errors"
	"strings"
	"testing"
	"time"
)

const stream = "id: a-1-0\ndata: {\"type\":\"RUN_STARTED\"}\n\n: comment\n\n" +
	"data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"m\",\"delta\":\"1000000000 \"}\n\n" +
	"data: {\"type\":\"TEXT_MESSAGE_CONTENT\",\"messageId\":\"m\",\"delta\":\"word \"}\n\n"

func TestReadingCountsWhatCame(t *testing.T) {
	long := "data: {\"type\":\"CUSTOM\",\"value\":\"" + strings.Repeat("data: x ", lineBuffer) + "\"}\n\n"
	r := reading{stamps: true}
	if err := r.follow(strings.NewReader(stream + long + "data: {\"type\":\"RUN_FINISHED\"}\n\n")); err != nil {
		t.Fatal(err)
	}
	if r.events != 5 || r.words != 2 || len(r.ages) != 1 || !r.firstStamp.Equal(time.Unix(1, 0)) || r.end.IsZero() {
		t.Errorf("%d events, %d words, %d ages, first stamp %v, end %v", r.events, r.words, len(r.ages), r.firstStamp, r.end)
	}
}

func TestReadingTellsARunThatDidNotEnd(t *testing.T) {
	var r reading
	if err := r.follow(strings.NewReader(stream)); !errors.Is(err, errStreamEnded) {
		t.Errorf("a cut stream: %v", err)
	}
	if err := r.follow(strings.NewReader(stream + "data: {\"type\":\"RUN_ERROR\",\"message\":\"no\"}\n\n")); err == nil || !strings.Contains(err.Error(), "RUN_ERROR") {
		t.Errorf("a failed run: %v", err)
	}
}
