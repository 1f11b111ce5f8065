// Not a module that is built: it keeps the files of other modules out of ./... in this one.
module shims

go 1.26.0
