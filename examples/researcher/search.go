package researcher

import (
	"cmp"
	"context"
	"errors"
	"math/bits"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/agent/tool"
)

const (
	// maxMatches bounds the lines of one result: enough to choose from.
	maxMatches = 50
	// maxMatchRunes cuts a line around which read_file can be asked for more.
	maxMatchRunes = 300
	// maxQueryBytes and maxWords bound a query: more words find less.
	maxQueryBytes = 1000
	maxWords      = 8
	// maxSearchBytes bounds what one search reads: a few seconds' worth.
	maxSearchBytes = 256 << 20
)

// fillers are words of questions that say nothing about where the answer is. They
// are left out of a query that has others.
const fillers = " a an and are as at be by can do does did for from has have how i in is it me my of on or " +
	"our that the this to was we what when where which who why with you your find search show tell about file files "

type searchInput struct {
	Query string `json:"query" jsonschema:"words to look for; upper and lower case are the same"`
	Path  string `json:"path,omitempty" jsonschema:"folder or file to search in, relative; everything if absent"`
}

// Match is a line that has words of the query.
type Match struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

// Matches is the result of search_files, best matches first.
type Matches struct {
	Matches []Match `json:"matches"`
	// Words are those that were looked for.
	Words []string `json:"words"`
	// AllWords says that each match has all the words; where no line has them
	// all, the lines with the most are returned.
	AllWords bool `json:"all_words"`
	// Files is how many files were searched; binary and very large ones are not.
	Files int `json:"files"`
	// Truncated says that there was more than is in the result.
	Truncated bool `json:"truncated,omitempty"`
}

func searchFiles(f folder) tool.Tool {
	return tool.New(tool.Spec{
		Name: "search_files",
		Description: "Search all text files for words and get the lines that have them, with path and line number. " +
			"Lines with all the words come before lines with some.",
		Effect:  tool.ReadOnly,
		Timeout: toolTimeout,
	}, func(ctx context.Context, _ *tool.Call, in searchInput) (Matches, error) {
		query, err := parseQuery(in.Query)
		if err != nil {
			return Matches{}, err
		}
		name, err := relative(in.Path)
		if err != nil {
			return Matches{}, err
		}
		root, err := f.open()
		if err != nil {
			return Matches{}, err
		}
		defer root.Close() //nolint:errcheck // only read from
		info, err := look(root, name)
		if err != nil {
			return Matches{}, explain(name, err)
		}
		result := ranking{query: query}
		if !info.IsDir() {
			text, err := readText(root, name)
			if err != nil {
				return Matches{}, explain(name, err)
			}
			return result.add(name, text).best(), nil
		}
		for found, err := range walk(ctx, root, name) {
			if errors.Is(err, errTooMany) || result.bytes > maxSearchBytes {
				result.truncated = true
				break
			}
			if err != nil {
				return Matches{}, explain(name, err)
			}
			if found.entry.IsDir() {
				continue
			}
			if err := ctx.Err(); err != nil {
				return Matches{}, err
			}
			// One file that can't be read is no reason to find nothing.
			if text, err := readText(root, found.path); err == nil {
				result.add(found.path, text)
			}
		}
		return result.best(), nil
	})
}

// query is what a search looks for, in lower case.
type query struct {
	phrase string
	words  []string
}

func parseQuery(text string) (query, error) {
	if len(text) > maxQueryBytes {
		return query{}, tool.Errorf("query is longer than %d bytes", maxQueryBytes)
	}
	phrase := strings.Join(strings.Fields(strings.ToLower(text)), " ")
	if phrase == "" {
		return query{}, tool.Errorf("query must not be empty")
	}
	var words, fill []string
	for word := range strings.FieldsSeq(phrase) {
		// Marks at the ends belong to the sentence; a word of nothing else is
		// looked for as it is.
		word = cmp.Or(strings.Trim(word, `?!.,;:"'`), word)
		switch {
		case slices.Contains(words, word) || slices.Contains(fill, word):
		case strings.Contains(fillers, " "+word+" "):
			fill = append(fill, word)
		default:
			words = append(words, word)
		}
	}
	if len(words) == 0 {
		words = fill
	}
	return query{phrase: phrase, words: words[:min(len(words), maxWords)]}, nil
}

// ranking keeps the first lines of every combination of words, so that memory is
// bounded however much matches.
type ranking struct {
	query     query
	sets      [1 << maxWords]set
	phrases   set
	files     int
	bytes     int
	truncated bool
}

// set holds the lines that have exactly one combination of the words.
type set struct {
	lines []Match
	count int
}

func (s *set) add(m Match) {
	s.count++
	if len(s.lines) < maxMatches {
		m.Text = shorten(strings.TrimSpace(m.Text), maxMatchRunes)
		s.lines = append(s.lines, m)
	}
}

func (r *ranking) add(name, text string) *ranking {
	r.files++
	r.bytes += len(text)
	for i, line := range lines(text) {
		lower := strings.ToLower(line)
		combination := 0
		for bit, word := range r.query.words {
			if strings.Contains(lower, word) {
				combination |= 1 << bit
			}
		}
		match := Match{Path: name, Line: i + 1, Text: line}
		switch {
		case strings.Contains(lower, r.query.phrase):
			r.phrases.add(match)
		case combination > 0:
			r.sets[combination].add(match)
		}
	}
	return r
}

// best returns the lines with the whole query as it is, then those with all its
// words. Where there are none, it returns those with the most words, and among
// combinations of as many words the rarest first, because rare words say more.
func (r *ranking) best() Matches {
	all := 1<<len(r.query.words) - 1
	result := Matches{Matches: []Match{}, Words: r.query.words, AllWords: true, Files: r.files, Truncated: r.truncated}
	total := 0
	take := func(s set) {
		total += s.count
		result.Matches = append(result.Matches, s.lines...)
	}
	take(r.phrases)
	take(r.sets[all])
	if total == 0 {
		result.AllWords = false
		var combinations []int
		for combination := range all {
			if r.sets[combination].count > 0 {
				combinations = append(combinations, combination)
			}
		}
		slices.SortStableFunc(combinations, func(a, b int) int {
			return cmp.Or(
				cmp.Compare(bits.OnesCount(uint(b)), bits.OnesCount(uint(a))),
				cmp.Compare(r.sets[a].count, r.sets[b].count),
			)
		})
		for _, combination := range combinations {
			take(r.sets[combination])
		}
	}
	if len(result.Matches) > maxMatches {
		result.Matches = result.Matches[:maxMatches]
	}
	result.Truncated = result.Truncated || total > len(result.Matches)
	return result
}
