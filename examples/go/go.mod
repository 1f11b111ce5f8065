module github.com/rangekeeper/rangekeeper/examples/go

go 1.26.0

require github.com/rangekeeper/rangekeeper/go-bindings v0.0.0

replace github.com/rangekeeper/rangekeeper/go-bindings => ../../go-bindings
