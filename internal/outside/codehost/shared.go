package codehost

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/maestro-hive/maestro/internal/core/delivery"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
)

const (
	// maxAnswer bounds what is read of an answer, in bytes. A page of 100 comments of GitHub has at most 26 MB.
	maxAnswer = 32 << 20
	// perPage is the largest page that hosts give, and maxPages how many of one list are read.
	perPage  = 100
	maxPages = 10
)

// cut is a text of others with at most [delivery.MaxText] bytes.
func cut(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= delivery.MaxText {
		return text
	}
	note := fmt.Sprintf("\n[The text has %s. The rest is left out.]", textfmt.Size(int64(len(text))))
	return textfmt.Shorten(text, delivery.MaxText-len(note)) + note
}

// webAddress reads the address of a host that gets credentials.
func webAddress(host, address string) (*url.URL, error) {
	web, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil || web.Hostname() == "" || web.User != nil || web.RawQuery != "" {
		return nil, fmt.Errorf("the address of %s is not a URL: write it in full, like https://git.example.com", host)
	}
	if web.Scheme != "https" && (web.Scheme != "http" || !net.ParseIP(web.Hostname()).IsLoopback()) {
		return nil, fmt.Errorf("the address of %s has to begin with https://, because credentials are sent there", host)
	}
	return web, nil
}
