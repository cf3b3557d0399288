package jira

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	gojira "github.com/andygrunwald/go-jira"

	"github.com/maestro-hive/maestro/internal/session"
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
	// Attachments are its files, Left those that the limits leave out.
	Attachments, Left []Attachment
}

// Attachment is a file of a ticket.
type Attachment struct {
	// Name is safe in a directory, and unlike those of the ticket's others.
	Name string
	Size int64
	// Why says why it is left out; empty: it is not.
	Why string

	content *url.URL
}

var ticketKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*-[1-9][0-9]*$`)

// Fetch reads a ticket. Its error is a *session.TicketTrouble.
func (c *Client) Fetch(ctx context.Context, key string, limits Limits) (Issue, error) {
	if !ticketKey.MatchString(key) {
		return Issue{}, misconfigured("%s is not a ticket key; write it like MD-123", quoted(key))
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
		refused: func(r refusal) *session.TicketTrouble { return c.ticketRefused(key, "Browse Projects", r) },
	})
	if err != nil {
		return Issue{}, err
	}
	if found.Key == "" {
		found.Key = key
	}
	issue := Issue{Key: found.Key, URL: c.Address(found.Key), Summary: strings.TrimSpace(found.Fields.Summary)}
	issue.Attachments, issue.Left = c.attachments(found.Fields.Attachment, limits)
	issue.Description = strings.ReplaceAll(found.Fields.Description, "\r\n", "\n")
	return issue, nil
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
	if u, err := url.Parse(f.Content); err == nil && sameSite(u, c.base) {
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

// reservedNames are names that some systems have for devices.
var reservedNames = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)`)

// safeName is a file's name without what could lead out of a directory, hide the
// file, or be refused by a file system.
func safeName(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || strings.ContainsRune(`/\:*?"<>|`, r) || unicode.Is(unicode.Cf, r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "_"))
	name = strings.Trim(name, ". ")
	if name == "" || reservedNames.MatchString(name) || strings.HasPrefix(name, "-") {
		name = "_" + name
	}
	if len(name) > maxFileName {
		ext := path.Ext(name)
		if len(ext) > 20 {
			ext = ""
		}
		name = cutBytes(strings.TrimSuffix(name, ext), maxFileName-len(ext)) + ext
	}
	return name
}

// cutBytes is the beginning of a text, of at most most bytes and whole characters.
func cutBytes(text string, most int) string {
	for most > 0 && most < len(text) && text[most]&0xC0 == 0x80 {
		most--
	}
	return text[:min(most, len(text))]
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
	k := call{what: "download attachment " + a.Name, method: http.MethodGet}
	ctx, cancel := context.WithTimeout(ctx, downloadTimeouts*c.config.Timeout)
	req, err := http.NewRequestWithContext(ctx, k.method, a.content.String(), nil)
	if err != nil {
		cancel()
		return nil, misconfigured("Jira: request to %s failed: %s", k.what, err)
	}
	req.Header.Set("User-Agent", "maestro")
	resp, err := c.files.Do(req)
	if err != nil {
		cancel()
		return nil, c.lost(k, err, true)
	}
	if resp.StatusCode != http.StatusOK {
		defer cancel()
		defer resp.Body.Close() //nolint:errcheck // It was only read.
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if trouble := c.judge(k, answer{status: resp.StatusCode, header: resp.Header, body: body}); trouble != nil {
			return nil, trouble
		}
		return nil, c.lost(k, fmt.Errorf("it answered %d", resp.StatusCode), true)
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
