module github.com/maestro-hive/maestro/size

go 1.26.3
