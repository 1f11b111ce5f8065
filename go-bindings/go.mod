module github.com/rangekeeper/rangekeeper/go-bindings

go 1.26.0
