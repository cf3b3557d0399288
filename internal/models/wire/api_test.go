package wire

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryFormatIsDescribed: what a description leaves out would be missed by a call only.
func TestEveryFormatIsDescribed(t *testing.T) {
	t.Parallel()
	for name, d := range apis {
		require.NotEmpty(t, []string{d.OwnPath, d.BaseURL, d.Key, d.base, d.keyHeader}, "%s", name)
		for _, text := range []string{d.OwnPath, d.BaseURL, d.Key, d.base, d.keyHeader} {
			require.NotEmpty(t, text, "%s", name)
		}
		require.Len(t, d.refusals, int(TooLarge)+1, "%s: a row for each Refusal", name)
		require.NotNil(t, d.errorBody, "%s", name)
		require.NotEqual(t, d.Spoken == "", d.Instead == "", "%s: agents of kind model speak it, or are told what to do", name)
		if d.Spoken != "" {
			require.NotNil(t, formats[d.Spoken].write, "%s", name)
			route, ok := name.Route(http.MethodPost, d.OwnPath)
			require.True(t, ok, "%s", name)
			require.Equal(t, d.Spoken, route.Format)
		}
		status, _, body := name.Refuse(RateLimited, "later", 0)
		require.GreaterOrEqual(t, status, http.StatusBadRequest, "%s", name)
		require.Contains(t, ReadFault(status, nil, body).Error(), "later", "%s", name)
		request, err := http.NewRequest(http.MethodPost, "/", nil)
		require.NoError(t, err)
		name.Authorize(request.Header, "a-key")
		require.Equal(t, "a-key", Credential(request), "%s", name)
		RemoveKeys(request.Header)
		require.Empty(t, Credential(request), "%s: the gateway must not pass on a program's token", name)
	}
	for name, f := range formats {
		require.NotEmpty(t, f.talk, "%s", name)
		for what, missing := range map[string]bool{
			"requestValue": f.requestValue == nil, "bound": f.bound == nil, "items": f.items == nil, "answerValue": f.answerValue == nil,
			"content":  f.content == nil,
			"setEnded": f.setEnded == nil, "usage": f.usage == nil, "add": f.add == nil,
		} {
			require.False(t, missing, "%s has no %s", name, what)
		}
	}
}
