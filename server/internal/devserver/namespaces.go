package devserver

import (
	"fmt"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/searchattribute/sadefs"
	"go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"
)

// retention is how long a namespace that is made here keeps closed workflows.
const retention = 7 * 24 * time.Hour

// ParseSearchAttribute reads NAME=TYPE, where TYPE is Keyword, KeywordList, Text, Int, Double, Bool or Datetime.
func ParseSearchAttribute(text string) (string, enumspb.IndexedValueType, error) {
	name, kind, _ := strings.Cut(text, "=")
	parsed, err := enumspb.IndexedValueTypeFromString(kind)
	switch {
	case err != nil || parsed == enumspb.INDEXED_VALUE_TYPE_UNSPECIFIED || name == "":
		return "", 0, fmt.Errorf(
			"search attribute %q: want NAME=TYPE with one of Keyword, KeywordList, Text, Int, Double, Bool, Datetime", text)
	case sadefs.IsReserved(name):
		return "", 0, fmt.Errorf("search attribute %q: this name belongs to Temporal", name)
	}
	return name, parsed, nil
}

// ensureNamespaces makes the namespaces that are missing, with the search attributes. It works on the database, before
// the server runs: who reaches the server finds everything in place, where a registration through the API would take
// effect seconds later. A namespace that exists is left as it is.
func ensureNamespaces(cfg *config.SQL, names []string, attributes map[string]enumspb.IndexedValueType) error {
	for _, name := range names {
		fresh, err := sqlite.NewNamespaceConfig(clusterName, name, false, attributes)
		if err == nil {
			fresh.Detail.Config.Retention = durationpb.New(retention)
			err = sqlite.CreateNamespaces(cfg, fresh)
		}
		if err != nil {
			return fmt.Errorf("namespace %q: %w", name, err)
		}
	}
	return nil
}
