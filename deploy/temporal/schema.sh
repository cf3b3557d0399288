#!/bin/sh
# Creates Temporal's databases in PostgreSQL and brings their schemas up to date, and
# an empty one for Maestro's state, whose tables the workers make.
# What is there stays, so it may run at each start. The tool reads SQL_HOST,
# SQL_PORT, SQL_USER and SQL_PASSWORD by itself.
set -eu
export SQL_PLUGIN=postgres12
for schema in temporal visibility; do
	case $schema in
	temporal) export SQL_DATABASE="${DBNAME:-temporal}" ;;
	visibility) export SQL_DATABASE="${VISIBILITY_DBNAME:-temporal_visibility}" ;;
	esac
	temporal-sql-tool create-database
	temporal-sql-tool setup-schema -v 0.0
	temporal-sql-tool update-schema --schema-name "postgresql/v12/$schema"
done
SQL_DATABASE=maestro temporal-sql-tool create-database
