package jira

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	gojira "github.com/andygrunwald/go-jira"

	"github.com/maestro-hive/maestro/internal/core/safetext"
	"github.com/maestro-hive/maestro/internal/core/textfmt"
	"github.com/maestro-hive/maestro/internal/platform/httpclient"
)

// Limits bound what is taken of a ticket's attachments.
type Limits struct {
	// Count is how many, Bytes how large one may be, Total all of them together.
	Count        int
	Bytes, Total int64
}

// DefaultLimits are enough for what people attach to a requirement.
func DefaultLimits() Limits { return Limits{Count: 100, Bytes: 100 << 20, Total: 500 << 20} }

// Issue is a ticket that says what is to be done.
type Issue struct {
	Key, URL string
	Summary  string
	// Description is wiki markup.
	Description string
	// Comments are its newest, quoted, of other authors than Maestro. CommentsLeft counts those that are not among them.
	Comments     string
	CommentsLeft int
	// Attachments are its files, Left those that the limits leave out.
	Attachments, Left []Attachment
}

// Attachment is a file of a ticket.
type Attachment struct {
	// Name is safe in a directory, and unlike those of the ticket's others.
	Name string
	Size int64
	// Why says why it is left out; empty if it is taken.
	Why string

	content *url.URL
}

var ticketKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*-[1-9][0-9]*$`)

// Fetch reads a ticket. Its error is a *session.TicketTrouble.
func (c *Client) Fetch(ctx context.Context, key string, limits Limits) (Issue, error) {
	if !ticketKey.MatchString(key) {
		return Issue{}, c.misconfigured("%q is not a ticket key; write it like MD-123", textfmt.Shorten(key, 80))
	}
	key = strings.ToUpper(key)
	var found struct {
		Key    string `json:"key"`
		Fields struct {
			Summary     string              `json:"summary"`
			Description string              `json:"description"`
			Attachment  []gojira.Attachment `json:"attachment"`
		} `json:"fields"`
	}
	err := c.do(ctx, call{
		what: "read ticket " + key, method: http.MethodGet, path: c.path("issue", key),
		query: url.Values{"fields": {"summary,description,attachment"}}, into: &found,
		advice: adviceOnTicket, ofTicket: true,
	})
	if err != nil {
		return Issue{}, err
	}
	key = cmp.Or(found.Key, key) // it may have moved
	issue := Issue{
		Key: key, URL: c.Address(key), Summary: strings.TrimSpace(found.Fields.Summary),
		Description: strings.ReplaceAll(found.Fields.Description, "\r\n", "\n"),
	}
	issue.Attachments, issue.Left = c.attachments(found.Fields.Attachment, limits)
	issue.Comments, issue.CommentsLeft, err = c.comments(ctx, key)
	return issue, err
}

// comments quotes the newest comments of a ticket.
func (c *Client) comments(ctx context.Context, key string) (quoted string, left int, err error) {
	newest, total, err := c.newest(ctx, key)
	var said []safetext.Comment
	for _, one := range slices.Backward(newest) {
		if isNotice(one.Body) {
			total--
			continue
		}
		said = append(said, safetext.Comment{By: one.Author.DisplayName, Date: one.Created, Text: one.Body})
	}
	quoted, taken := safetext.Comments(said)
	return quoted, total - taken, err
}

// attachments names a ticket's files and holds them to the limits.
func (c *Client) attachments(files []gojira.Attachment, limits Limits) (taken, left []Attachment) {
	used := map[string]bool{}
	total := int64(0)
	for _, f := range files {
		a := Attachment{Name: unused(safeName(f.Filename), used), Size: int64(f.Size), content: c.content(f)}
		switch {
		case len(taken) == limits.Count:
			a.Why = fmt.Sprintf("only %d attachments are taken", limits.Count)
		case a.Size > limits.Bytes:
			a.Why = fmt.Sprintf("it has %d bytes; at most %d are taken", a.Size, limits.Bytes)
		case a.Size > limits.Total-total:
			a.Why = fmt.Sprintf("all attachments together would have more than %d bytes", limits.Total)
		}
		if a.Why != "" {
			left = append(left, a)
			continue
		}
		total += a.Size
		taken = append(taken, a)
	}
	return taken, left
}

// content is where an attachment's bytes are: where Jira says, if that is on the
// configured site, and otherwise where they are known to be on it.
func (c *Client) content(f gojira.Attachment) *url.URL {
	if u, err := url.Parse(f.Content); err == nil && c.onSite(u) {
		return u
	}
	if c.config.Deployment == DataCenter {
		return c.base.JoinPath("secure", "attachment", f.ID, f.Filename)
	}
	return c.base.JoinPath(c.path("attachment", "content", f.ID))
}

// maxFileName bounds a file's name, in bytes: file systems have 255, and what
// keeps names apart needs some of them.
const maxFileName = 200

// safeName is a file's name without what could lead out of a directory, hide the
// file, or be refused by a file system.
func safeName(name string) string {
	name = strings.TrimLeft(safetext.Portable(strings.ReplaceAll(name, "/", "_")), ".- ")
	if len(name) > maxFileName {
		ext := path.Ext(name)
		if len(ext) > 20 {
			ext = ""
		}
		name = strings.ToValidUTF8(name[:maxFileName-len(ext)], "") + ext
	}
	return cmp.Or(name, "_")
}

// unused is a name that is not used yet, also where case does not count.
func unused(name string, used map[string]bool) string {
	ext := path.Ext(name)
	stem := strings.TrimSuffix(name, ext)
	candidate := name
	for n := 2; used[strings.ToLower(candidate)]; n++ {
		candidate = stem + "-" + strconv.Itoa(n) + ext
	}
	used[strings.ToLower(candidate)] = true
	return candidate
}

// Open opens an attachment's content, which the caller closes. Cloud keeps it on
// another host, which gets no credentials. Reading it fails if there is less or
// more of it than its size. Its error is a *session.TicketTrouble.
func (c *Client) Open(ctx context.Context, a Attachment) (io.ReadCloser, error) {
	k := call{what: "download attachment " + a.Name, method: http.MethodGet, advice: adviceOnTicket}
	ctx, cancel := context.WithTimeout(ctx, downloadTimeouts*c.config.Timeout)
	req, err := http.NewRequestWithContext(ctx, k.method, a.content.String(), nil)
	if err != nil {
		cancel()
		return nil, c.misconfigured("the request to %s failed: %s", k.what, err)
	}
	c.authorize(req)
	resp, err := c.files.Do(req)
	if err != nil {
		cancel()
		return nil, c.lost(k, httpclient.NoAnswer(err, c.config.Timeout), true)
	}
	if resp.StatusCode != http.StatusOK {
		defer cancel()
		defer resp.Body.Close() //nolint:errcheck // It was only read.
		_, err := c.read(k, resp)
		return nil, cmp.Or(err, error(c.lost(k, fmt.Sprintf("status %d", resp.StatusCode), true)))
	}
	return &download{body: resp.Body, left: a.Size, cancel: cancel}, nil
}

// download is an attachment's content, held to its size.
type download struct {
	body   io.ReadCloser
	left   int64
	cancel context.CancelFunc
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	n, err := d.body.Read(p)
	d.left -= int64(n)
	switch {
	case d.left < 0:
		return 0, fmt.Errorf("the attachment is larger than Jira says")
	case err == io.EOF && d.left > 0:
		return n, io.ErrUnexpectedEOF
	}
	return n, err
}

// Close implements io.Closer.
func (d *download) Close() error {
	defer d.cancel()
	return d.body.Close()
}
