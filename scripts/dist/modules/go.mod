module github.com/rangekeeper/rangekeeper/scripts/dist/modules

go 1.26.0

require golang.org/x/mod v0.42.0
