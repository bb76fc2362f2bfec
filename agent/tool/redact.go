package tool

import (
	"bytes"
	"encoding/json"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// redacted stands for what was taken out of a text.
const redacted = "[redacted]"

// longArgument is the length in bytes from which the value of an argument is content and not a name: a message may say
// that there is no order ORD-1001, and need not repeat a letter.
const longArgument = 40

var (
	addressURL = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]+`)

	secretPatterns = []*regexp.Regexp{
		regexp.MustCompile(`(?s)-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|$)`),
		regexp.MustCompile(`\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?`),
		regexp.MustCompile(`\b(?:sk|pk|rk)[-_][\w-]{12,}`),
		regexp.MustCompile(`\b(?:gh[a-z]_|github_pat_|glpat-|hf_|AIza)[\w-]{16,}`),
		regexp.MustCompile(`\bxox[a-z]-[\w-]{8,}`),
		regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{12,}`),
	}
	// The name stays, so that whoever reads it knows what was there.
	namedSecret = regexp.MustCompile(`(?i)((?:password|passwd|pwd|secret|token|api[_-]?key|access[_-]?key|credentials?|authorization|cookie)["']?\s*[:=]\s*)(?:(?:bearer|basic)\s+)?("[^"]*"|'[^']*'|[^\s,;&"']+)`)
	authScheme  = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}`)
	opaqueToken = regexp.MustCompile(`[A-Za-z0-9+/_=-]{32,}`)

	ipAddress   = regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b|\[[0-9a-fA-F:]{3,}\](?::\d+)?|\b(?:[0-9a-fA-F]{1,4}:){4,}[0-9a-fA-F:]*`)
	hostPort    = regexp.MustCompile(`\b(?:localhost|[\w-]+(?:\.[\w-]+)+):\d{1,5}\b`)
	unixPath    = regexp.MustCompile(`(^|[^\w/.~-])(?:~|(?:file:)?/[\w.@+~-]+)(?:/[\w.@+~-]+)+/?`)
	windowsPath = regexp.MustCompile(`\b[A-Za-z]:\\[^\s"'<>|]+|\\\\[\w.-]+\\[^\s"'<>|]+`)
)

// redact takes out of a text what is nobody's business in a conversation: what looks like credentials, absolute paths, and
// the addresses of machines. It is a net below the author of a tool, and not a licence to be careless: what a secret looks
// like can only be guessed.
func redact(text string) string {
	text = addressURL.ReplaceAllStringFunc(text, publicURL)
	for _, p := range secretPatterns {
		text = p.ReplaceAllString(text, redacted)
	}
	text = namedSecret.ReplaceAllString(text, "${1}"+redacted)
	text = authScheme.ReplaceAllString(text, "${1} "+redacted)
	text = opaqueToken.ReplaceAllStringFunc(text, opaque)
	text = windowsPath.ReplaceAllString(text, redacted)
	text = unixPath.ReplaceAllString(text, "${1}"+redacted)
	text = ipAddress.ReplaceAllString(text, redacted)
	return hostPort.ReplaceAllString(text, redacted)
}

// publicURL keeps the address of a page that anybody may know, without its query.
func publicURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.Port() != "" || net.ParseIP(u.Hostname()) != nil {
		return redacted
	}
	host := u.Hostname()
	for _, private := range []string{".internal", ".local", ".svc", ".lan", ".corp", ".localhost"} {
		if strings.HasSuffix(host, private) {
			return redacted
		}
	}
	if !strings.Contains(host, ".") {
		return redacted
	}
	if before, _, found := strings.Cut(text, "?"); found {
		return before
	}
	return text
}

// opaque takes out a long word that has the look of a key: a stretch of letters and digits mixed. Ids such as UUIDs, whose
// stretches are short, and long names are left.
func opaque(word string) string {
	for part := range strings.FieldsFuncSeq(word, func(r rune) bool { return strings.ContainsRune("-_/+=", r) }) {
		if len(part) >= 20 && strings.ContainsAny(part, "0123456789") && strings.ContainsFunc(part, func(r rune) bool { return r >= 'A' }) {
			return redacted
		}
	}
	return word
}

// withoutArguments takes the arguments of a call out of a text about it: as a whole, and of their values those that are
// long, or that are named like a secret.
func withoutArguments(text string, args json.RawMessage) string {
	args = bytes.TrimSpace(args)
	if len(args) <= len("{}") {
		return text
	}
	forms := []string{string(args)}
	var compact bytes.Buffer
	if json.Compact(&compact, args) == nil {
		forms = append(forms, compact.String())
	}
	var value any
	if json.Unmarshal(args, &value) == nil {
		if again, err := json.Marshal(value); err == nil {
			forms = append(forms, string(again))
		}
		forms = append(forms, private(nil, "", value)...)
	}
	// The longest first: it may hold others, which would leave pieces of it.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	for _, form := range forms {
		quoted := strconv.Quote(form)
		text = strings.ReplaceAll(text, form, redacted)
		text = strings.ReplaceAll(text, quoted[1:len(quoted)-1], redacted)
	}
	return text
}

var secretName = regexp.MustCompile(`(?i)passw|secret|token|(?:api|access|private)[_-]?key|credential|authorization|cookie`)

// private collects the values that are not to be repeated.
func private(list []string, name string, value any) []string {
	switch value := value.(type) {
	case string:
		if len(value) >= longArgument || len(value) >= 6 && secretName.MatchString(name) {
			list = append(list, value)
		}
	case []any:
		for _, v := range value {
			list = private(list, name, v)
		}
	case map[string]any:
		for n, v := range value {
			list = private(list, n, v)
		}
	}
	return list
}
