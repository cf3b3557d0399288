package wire

import (
	"slices"
	"strings"
)

// Web names what in the body of a request makes its provider reach the web: a tool that the provider
// runs, like a search, a fetch or a remote MCP server, a model that searches, or content by its address.
// Empty: nothing does. Tools that the program runs are not meant, whatever their names. model is the one in
// the path.
func Web(model string, body []byte) (what string) {
	note := func(found string) {
		if what == "" && found != "" {
			what = found
		}
	}
	note(webModel(model))
	s := scanner{
		container: func(path string, _ int, _ int64, opens bool) {
			if opens {
				note(webKey(path))
			}
		},
		leaf: func(path string, l leaf) {
			if l.quoted || !l.is("false") && !l.is("null") {
				note(webKey(path))
				note(webValue(path, l))
			}
		},
	}
	s.write(body)
	return what
}

// folded is a name without what its spellings differ in.
func folded(name string) string {
	return strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
}

// containsAny reports whether a text contains one of some words.
func containsAny(text string, words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
}

// webTool returns the name of a tool, or of an option, if it reaches the web.
func webTool(name string) string {
	of := folded(name)
	for _, stored := range []string{"filesearch", "toolsearch", "collectionssearch"} {
		of = strings.ReplaceAll(of, stored, "")
	}
	if containsAny(of, "web", "search", "url", "fetch", "brows", "google", "mcp", "connector") {
		return name
	}
	return ""
}

// webModel returns the name of a model if the model always searches.
func webModel(name string) string {
	if containsAny(strings.ToLower(name), ":online", "-search", "deep-research", "sonar", "compound") {
		return "model " + name
	}
	return ""
}

// webKey returns the name of a value of a request if that it exists reaches the web.
func webKey(path string) string {
	top, rest, list := strings.Cut(path, "[]")
	switch {
	case list && strings.EqualFold(top, "tools") && strings.LastIndexAny(rest, ".[") == 0: // Gemini's tools are keys
		return webTool(rest[1:])
	case list && rest == "" && slices.Contains([]string{"mcpservers", "connectors"}, folded(top)),
		!list && !strings.Contains(path, ".") && strings.Contains(folded(path), "search"):
		return top
	}
	return ""
}

// webValue returns the name of a value of a request if the value reaches the web.
func webValue(path string, l leaf) string {
	of, text := folded(path), l.text()
	switch of {
	case "tools[].type", "input[].tools[].type", "plugins[].id":
		return webTool(text)
	case "tools[].function.name":
		if strings.HasPrefix(text, "$") { // a tool of the provider
			return webTool(text)
		}
	case "model", "models[]":
		return webModel(text)
	}
	switch {
	case strings.HasPrefix(of, "tools[].") && strings.HasSuffix(of, ".networkpolicy.type") && text != "disabled":
		return "network_policy"
	case isContent(of) && isAddress(text):
		return "content by its address (" + path[strings.LastIndexByte(path, '.')+1:] + ")"
	}
	return ""
}

// isContent reports whether a value is a part of the conversation that a provider reads, and not an
// argument or a result of a tool of the program.
func isContent(of string) bool {
	talk := slices.ContainsFunc([]string{"messages[]", "input[]", "contents[]", "system"},
		func(top string) bool { return strings.HasPrefix(of, top) })
	if !talk || containsAny(of, ".input.", ".args.", ".response.", ".arguments.") {
		return false
	}
	return slices.ContainsFunc([]string{
		".source.url", ".imageurl", ".imageurl.url", ".videourl", ".videourl.url", ".audiourl.url", ".fileurl", ".file.filedata",
		".filedata.fileuri",
	}, func(end string) bool { return strings.HasSuffix(of, end) })
}

// isAddress reports whether a text is an address that a provider may look up, whatever its scheme: a bucket's owner sees who
// reads what. Data that the request contains itself and Gemini's own files are written like addresses, too.
func isAddress(text string) bool {
	text = strings.ToLower(strings.TrimSpace(text))
	scheme, _, found := strings.Cut(text, ":")
	if strings.HasPrefix(text, "https://generativelanguage.googleapis.com/") || scheme == "data" {
		return false
	}
	return found || strings.HasPrefix(text, "//")
}
