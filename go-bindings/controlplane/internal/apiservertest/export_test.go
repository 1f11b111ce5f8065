package apiservertest

// Program skips a test or lets it fail as Start does.
var Program = program
