// Empty: its presence lets nodeports.go declare a function without a body.
