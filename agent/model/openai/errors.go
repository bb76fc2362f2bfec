package openai

import (
	"io"
	"net/http"
	"strconv"

	"github.com/holdfast-dev/holdfast/agent/model"
)

// refusal is the error of an answer whose status is one.
func (m *completions) refusal(res *http.Response) *model.Error {
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // what could be read has to do
	r := model.ParseReport(body)
	r.Status = res.StatusCode
	return m.failed(res, r)
}

// failed makes an error of what a provider said.
func (m *completions) failed(res *http.Response, r model.Report) *model.Error {
	if reason := http.StatusText(r.Status); r.Message == "" && reason != "" {
		r.Message = "the provider answered: " + strconv.Itoa(r.Status) + " " + reason
	}
	return r.Error(res.Header, m.config.APIKey)
}
