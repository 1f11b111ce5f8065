package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageError says what is wrong in a command line, and how to get help.
func usageError(c *cobra.Command, format string, args ...any) error {
	return fmt.Errorf("%s; see %s --help", fmt.Sprintf(format, args...), c.CommandPath())
}

// flagError puts the errors of the flags' parser into words of ours.
func flagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return usageError(c, "there is no flag -%s", unknown.GetSpecifiedName())
	case errors.As(err, &unknown):
		return usageError(c, "there is no flag --%s", unknown.GetSpecifiedName())
	case errors.As(err, &missing):
		return usageError(c, "--%s needs a value", missing.GetFlag().Name)
	case errors.As(err, &invalid):
		cause := invalid.Unwrap()
		if number := (*strconv.NumError)(nil); errors.As(cause, &number) {
			cause = number.Err
		}
		return usageError(c, "--%s cannot be %q: %v", invalid.GetFlag().Name, invalid.GetValue(), cause)
	default:
		return usageError(c, "%v", err)
	}
}

// arguments checks the arguments of a command against its Use: NAME, NAME... and [NAME].
func arguments(c *cobra.Command, args []string) error {
	names := strings.Fields(c.Use)[1:]
	for i, name := range names {
		if strings.HasSuffix(name, "...") && i < len(args) {
			return nil
		}
		if i >= len(args) && !strings.HasPrefix(name, "[") {
			return usageError(c, "%s is missing", strings.TrimSuffix(name, "..."))
		}
	}
	if len(args) > len(names) {
		return unexpected(c, args[len(names)])
	}
	return nil
}

func unexpected(c *cobra.Command, arg string) error {
	return usageError(c, "unexpected argument %q", arg)
}

// subcommands checks the arguments of a command that only has subcommands.
func subcommands(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if c.ArgsLenAtDash() == 0 {
		return usageError(c, "unexpected argument %q after --", args[0])
	}
	hint := ""
	if similar := c.SuggestionsFor(args[0]); args[0] != "" && len(similar) > 0 { // each name begins with ""
		hint = " (did you mean " + strings.Join(similar, " or ") + "?)"
	}
	return usageError(c, "there is no command %q%s", args[0], hint)
}

// showHelp is the command help.
func showHelp(c *cobra.Command, args []string) error {
	of, rest, err := c.Root().Find(args)
	if err != nil {
		return err
	}
	if err := subcommands(of, rest); err != nil {
		return err
	}
	of.InitDefaultHelpFlag()
	return of.Help()
}

// addRule adds a check of a command's flags and arguments, which makes no I/O. It comes before cobra's own checks, which
// serve the completion of flags.
func addRule(c *cobra.Command, rule func(args []string) error) {
	before := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if before != nil {
			if err := before(c, args); err != nil {
				return err
			}
		}
		return rule(args)
	}
}

// required: the flag must be there.
func required(c *cobra.Command, name string) {
	c.MarkFlagRequired(name)
	addRule(c, func([]string) error {
		if !c.Flags().Changed(name) {
			return usageError(c, "--%s is missing", name)
		}
		return nil
	})
}

// exclusive: only one of the two flags may be there.
func exclusive(c *cobra.Command, one, other string) {
	c.MarkFlagsMutuallyExclusive(one, other)
	addRule(c, func([]string) error {
		if c.Flags().Changed(one) && c.Flags().Changed(other) {
			return usageError(c, "--%s and --%s exclude each other", one, other)
		}
		return nil
	})
}

// oneOf: one of the two flags must be there.
func oneOf(c *cobra.Command, one, other string) {
	c.MarkFlagsOneRequired(one, other)
	addRule(c, func([]string) error {
		if !c.Flags().Changed(one) && !c.Flags().Changed(other) {
			return usageError(c, "--%s or --%s is missing", one, other)
		}
		return nil
	})
}

// notEmpty: the flag may be left out. It must not be empty, as it is for an unset variable of the shell, nor may one
// element of a list.
func notEmpty(c *cobra.Command, name string) {
	addRule(c, func([]string) error {
		f := c.Flags().Lookup(name)
		list, isList := f.Value.(pflag.SliceValue)
		switch {
		case !f.Changed:
		case isList && slices.Contains(list.GetSlice(), ""):
			return usageError(c, "--%s has an empty element", name)
		case isList && len(list.GetSlice()) == 0, f.Value.String() == "":
			return usageError(c, "--%s is empty", name)
		}
		return nil
	})
}
