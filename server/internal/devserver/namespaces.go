package devserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence"
	"go.temporal.io/server/common/persistence/serialization"
	tsql "go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	"go.temporal.io/server/common/resolver"
	"go.temporal.io/server/common/searchattribute/sadefs"
	"go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"
)

// retention is how long a namespace that is made here keeps closed workflows.
const retention = 7 * 24 * time.Hour

// SearchAttribute is a custom search attribute of a namespace.
type SearchAttribute struct {
	Name string
	Type enumspb.IndexedValueType
}

// ParseSearchAttribute reads NAME=TYPE, where TYPE is Keyword, KeywordList, Text, Int, Double, Bool or Datetime.
func ParseSearchAttribute(text string) (SearchAttribute, error) {
	name, kind, _ := strings.Cut(text, "=")
	parsed, err := enumspb.IndexedValueTypeFromString(kind)
	switch {
	case err != nil || parsed == enumspb.INDEXED_VALUE_TYPE_UNSPECIFIED || name == "":
		return SearchAttribute{}, fmt.Errorf(
			"search attribute %q: want NAME=TYPE with one of Keyword, KeywordList, Text, Int, Double, Bool, Datetime", text)
	case sadefs.IsReserved(name):
		return SearchAttribute{}, fmt.Errorf("search attribute %q: this name belongs to Temporal", name)
	}
	return SearchAttribute{Name: name, Type: parsed}, nil
}

// ensureNamespaces makes the namespaces that are missing and adds the search attributes that each lacks. It works on
// the database, before the server runs: who reaches the server finds everything in place, where a registration through
// the API would take effect seconds later. What a namespace has already is left as it is.
func ensureNamespaces(ctx context.Context, cfg *config.SQL, names []string, attributes []SearchAttribute) (err error) {
	db, err := tsql.NewSQLDB(sqlplugin.DbKindUnknown, cfg, resolver.NewNoopResolver(), log.NewNoopLogger(), metrics.NoopMetricsHandler)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()

	for _, name := range names {
		fresh, err := sqlite.NewNamespaceConfig(clusterName, name, false, nil)
		if err != nil {
			return fmt.Errorf("namespace %q: %w", name, err)
		}
		fresh.Detail.Config.Retention = durationpb.New(retention)
		if err := sqlite.CreateNamespaces(cfg, fresh); err != nil {
			return fmt.Errorf("namespace %q: %w", name, err)
		}
		if err := ensureSearchAttributes(ctx, db, name, attributes); err != nil {
			return fmt.Errorf("namespace %q: %w", name, err)
		}
	}
	return nil
}

func ensureSearchAttributes(ctx context.Context, db sqlplugin.DB, namespace string, attributes []SearchAttribute) error {
	rows, err := db.SelectFromNamespace(ctx, sqlplugin.NamespaceFilter{Name: &namespace})
	if err != nil {
		return err
	}
	row := rows[0]
	serializer := serialization.NewSerializer()
	detail, err := serializer.NamespaceDetailFromBlob(persistence.NewDataBlob(row.Data, row.DataEncoding))
	if err != nil {
		return err
	}
	columns, changed, err := assignColumns(detail.GetConfig().GetCustomSearchAttributeAliases(), attributes)
	if err != nil || !changed {
		return err
	}
	detail.Config.CustomSearchAttributeAliases = columns
	blob, err := serializer.NamespaceDetailToBlob(detail)
	if err != nil {
		return err
	}
	row.Data, row.DataEncoding = blob.GetData(), blob.GetEncodingType().String()
	_, err = db.UpdateNamespace(ctx, &row)
	return err
}

// assignColumns gives each attribute a column of its type. A SQL database has a fixed number of columns for each type,
// named Keyword01 and so on, and a namespace maps them to the names of its attributes.
func assignColumns(taken map[string]string, attributes []SearchAttribute) (map[string]string, bool, error) {
	types := sadefs.GetDBIndexSearchAttributes(nil).CustomSearchAttributes
	columns := maps.Clone(taken)
	if columns == nil {
		columns = map[string]string{}
	}
	columnOf := map[string]string{}
	for column, name := range columns {
		columnOf[name] = column
	}
	changed := false
	for _, attribute := range attributes {
		if column, ok := columnOf[attribute.Name]; ok {
			if types[column] != attribute.Type {
				return nil, false, fmt.Errorf("search attribute %q exists as %s and cannot become %s",
					attribute.Name, types[column], attribute.Type)
			}
			continue
		}
		column, ok := freeColumn(types, columns, attribute.Type)
		if !ok {
			return nil, false, fmt.Errorf("search attribute %q: all search attributes of type %s are used up",
				attribute.Name, attribute.Type)
		}
		columns[column], columnOf[attribute.Name], changed = attribute.Name, column, true
	}
	return columns, changed, nil
}

func freeColumn(types map[string]enumspb.IndexedValueType, taken map[string]string, want enumspb.IndexedValueType) (string, bool) {
	for _, column := range slices.Sorted(maps.Keys(types)) {
		if _, used := taken[column]; !used && types[column] == want {
			return column, true
		}
	}
	return "", false
}
