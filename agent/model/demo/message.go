package demo

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What can be told by its looks.
var (
	idPattern     = regexp.MustCompile(`^#?[A-Za-z]{1,10}-\d+$|^#\d+$`)
	filePattern   = regexp.MustCompile(`^\.{0,2}/?[\w@-]+(?:[./][\w@-]+)*/?$`)
	fileExtension = regexp.MustCompile(`\.[A-Za-z][A-Za-z0-9]{0,7}$`)
	quotePattern  = regexp.MustCompile("\"([^\"]+)\"|“([^”]+)”|`([^`]+)`")
	moneyPattern  = regexp.MustCompile(`(?i)[$€£]\s?(\d+(?:[.,]\d{1,2})?)\b|\b(\d+(?:[.,]\d{1,2})?)\s?(?:[$€£]|usd\b|eur\b|gbp\b|dollars?\b|euros?\b|pounds?\b)`)
	centsPattern  = regexp.MustCompile(`(?i)\b(\d+)\s?cents?\b`)
)

// fillers say nothing about what is looked for.
const fillers = " a an and any are as at be been by can could did do does file files find for from give had has have " +
	"how i in into is it its me my of on or our out please repository s say says show should tell that the their there these they this " +
	"to us was we were what when where which who why will with would you your "

// plainFiles are files that have no extension.
const plainFiles = " README LICENSE CHANGELOG CONTRIBUTING Makefile Dockerfile "

// message is what can be told of the user's message without knowing the language.
type message struct {
	text   string
	words  []string // lower case, without the marks around them
	quotes []string
	ids    []string
	files  []string
	names  []string // runs of capitalised words
	tokens []token
}

// token is a word as it stands in the text.
type token struct {
	word string // without the marks around it
	// opens says that a sentence begins here, closes that a clause ends.
	opens, closes bool
}

func readMessage(text string) *message {
	m := &message{text: text}
	for _, q := range quotePattern.FindAllStringSubmatch(text, -1) {
		m.quotes = appendNew(m.quotes, q[1]+q[2]+q[3])
	}
	opens := true
	for field := range strings.FieldsSeq(text) {
		word := strings.Trim(field, "\"“”`'‘’()[]{}<>.,;:!?…*_")
		if strings.HasPrefix(field, "./") || strings.HasPrefix(field, "../") {
			word = field[:strings.Index(field, "/")] + "/" + strings.Trim(field[strings.Index(field, "/"):], "/.,;:!?)")
		}
		last, _ := utf8.DecodeLastRuneInString(field)
		closes := strings.ContainsRune(".,;:!?…)", last)
		if word != "" {
			m.tokens = append(m.tokens, token{word: word, opens: opens, closes: closes})
			m.words = append(m.words, strings.ToLower(word))
			switch {
			case idPattern.MatchString(word):
				m.ids = appendNew(m.ids, strings.TrimPrefix(word, "#"))
			case isFile(word):
				m.files = appendNew(m.files, word)
			}
		}
		opens = strings.ContainsRune(".!?…:", last)
	}
	m.names = m.findNames()
	return m
}

func isFile(word string) bool {
	if strings.Contains(plainFiles, " "+word+" ") {
		return true
	}
	if !filePattern.MatchString(word) || len(word) < 3 {
		return false
	}
	before, after, slash := strings.Cut(word, "/")
	// "and/or" and "read/write" are no files, and neither is "e.g".
	return fileExtension.MatchString(word) && !strings.HasPrefix(word, "e.g") && !strings.HasPrefix(word, "i.e") ||
		slash && (strings.Contains(after, "/") || after == "" || strings.HasPrefix(before, "."))
}

// findNames returns the runs of capitalised words that do not begin a sentence.
func (m *message) findNames() []string {
	var names, run []string
	end := func() {
		if len(run) > 0 {
			names = appendNew(names, strings.Join(run, " "))
		}
		run = nil
	}
	for _, t := range m.tokens {
		first, size := utf8.DecodeRuneInString(t.word)
		rest := t.word[size:]
		capital := unicode.IsUpper(first) && rest != "" && strings.ToLower(rest) == rest && !strings.HasPrefix(rest, "'")
		if !capital || t.opens || idPattern.MatchString(t.word) || isFile(t.word) {
			end()
			continue
		}
		run = append(run, strings.TrimSuffix(strings.TrimSuffix(t.word, "'s"), "’s"))
		if t.closes || strings.HasSuffix(t.word, "'s") || strings.HasSuffix(t.word, "’s") {
			end()
		}
	}
	end()
	return names
}

// has reports whether one of the words is in the message.
func (m *message) has(words ...string) bool {
	return slices.ContainsFunc(m.words, func(w string) bool { return slices.Contains(words, w) })
}

// behind returns what stands behind the first of the words, up to the end of the
// clause, without a leading article.
func (m *message) behind(words ...string) string {
	for i, t := range m.tokens {
		if !slices.Contains(words, strings.ToLower(t.word)) || t.closes {
			continue
		}
		var phrase []string
		for _, next := range m.tokens[i+1:] {
			lower := strings.ToLower(next.word)
			if len(phrase) == 0 && (lower == "the" || lower == "a" || lower == "an") {
				continue
			}
			if lower == "please" || isFile(next.word) || len(phrase) > 0 && (lower == "in" || lower == "from" || lower == "within") {
				break
			}
			phrase = append(phrase, next.word)
			if next.closes {
				break
			}
		}
		if len(phrase) > 0 {
			return strings.Join(phrase, " ")
		}
	}
	return ""
}

// topic is what the message is about: a quotation, what stands behind "about", or
// all words that say something.
func (m *message) topic(without func(word string) bool) string {
	if len(m.quotes) > 0 {
		return m.quotes[0]
	}
	if phrase := m.behind("about", "regarding", "mentions", "mention"); phrase != "" {
		return phrase
	}
	var said []string
	for _, t := range m.tokens {
		lower := strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(t.word, "'s"), "’s"))
		if !strings.Contains(fillers, " "+lower+" ") && !isFile(t.word) && !without(lower) {
			said = append(said, t.word)
		}
	}
	return strings.Join(said, " ")
}

// relevance says how well a line fits words in lower case: a whole word counts
// for more than one that is a part of another.
func relevance(line string, words []string) int {
	fields := strings.FieldsFunc(strings.ToLower(line), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_'
	})
	score := 0
	for _, w := range words {
		w = strings.Trim(w, ".,;:!?()'")
		switch {
		case w == "":
		case slices.ContainsFunc(fields, func(f string) bool { return f == w || f == w+"s" || f+"s" == w }):
			score += 3
		case strings.Contains(strings.ToLower(line), w):
			score++
		}
	}
	return score
}

// cents returns the amount of money in the message.
func (m *message) cents() (int64, bool) {
	if found := centsPattern.FindStringSubmatch(m.text); found != nil {
		n, err := strconv.ParseInt(found[1], 10, 64)
		return n, err == nil
	}
	found := moneyPattern.FindStringSubmatch(m.text)
	if found == nil {
		return 0, false
	}
	whole, part, _ := strings.Cut(strings.ReplaceAll(found[1]+found[2], ",", "."), ".")
	n, err := strconv.ParseInt(whole+(part + "00")[:2], 10, 64)
	return n, err == nil
}

// number returns the first whole number that stands alone.
func (m *message) number() (int64, bool) {
	for _, t := range m.tokens {
		if n, err := strconv.ParseInt(t.word, 10, 64); err == nil {
			return n, true
		}
	}
	return 0, false
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// shorten cuts text at a number of bytes, between characters.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
