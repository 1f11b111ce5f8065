// Package usage checks the arguments and flags of commands, and reports wrong ones in one sentence each.
package usage

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Error says what is wrong in a command line, and how to get help.
func Error(c *cobra.Command, format string, args ...any) error {
	return fmt.Errorf("%s; see %s --help", fmt.Sprintf(format, args...), c.CommandPath())
}

// FlagError puts the errors of the flags' parser into words of ours.
func FlagError(c *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var missing *pflag.ValueRequiredError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return Error(c, "there is no flag -%s", unknown.GetSpecifiedName())
	case errors.As(err, &unknown):
		return Error(c, "there is no flag --%s", unknown.GetSpecifiedName())
	case errors.As(err, &missing):
		return Error(c, "--%s needs a value", missing.GetFlag().Name)
	case errors.As(err, &invalid):
		cause := invalid.Unwrap()
		if number := (*strconv.NumError)(nil); errors.As(cause, &number) {
			cause = number.Err
		}
		return Error(c, "--%s cannot be %q: %v", invalid.GetFlag().Name, invalid.GetValue(), cause)
	default:
		return Error(c, "%v", err)
	}
}

// Arguments checks the arguments of a command against its Use: NAME, NAME... and [NAME].
func Arguments(c *cobra.Command, args []string) error {
	names := strings.Fields(c.Use)[1:]
	for i, name := range names {
		if strings.HasSuffix(name, "...") && i < len(args) {
			return nil
		}
		if i >= len(args) && !strings.HasPrefix(name, "[") {
			return Error(c, "%s is missing", strings.TrimSuffix(name, "..."))
		}
	}
	if len(args) > len(names) {
		return Unexpected(c, args[len(names)])
	}
	return nil
}

func Unexpected(c *cobra.Command, arg string) error {
	return Error(c, "unexpected argument %q", arg)
}

// Subcommands checks the arguments of a command that only has subcommands.
func Subcommands(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if c.ArgsLenAtDash() == 0 {
		return Error(c, "unexpected argument %q after --", args[0])
	}
	hint := ""
	if similar := c.SuggestionsFor(args[0]); args[0] != "" && len(similar) > 0 { // each name begins with ""
		hint = " (did you mean " + strings.Join(similar, " or ") + "?)"
	}
	return Error(c, "there is no command %q%s", args[0], hint)
}

// ShowHelp is the command help.
func ShowHelp(c *cobra.Command, args []string) error {
	of, rest, err := c.Root().Find(args)
	if err != nil {
		return err
	}
	if err := Subcommands(of, rest); err != nil {
		return err
	}
	of.InitDefaultHelpFlag()
	return of.Help()
}

// AddRule adds a check of a command's flags and arguments, which makes no I/O. It comes before cobra's own checks,
// which serve the completion of flags.
func AddRule(c *cobra.Command, rule func(args []string) error) {
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

// Required: the flag must be there.
func Required(c *cobra.Command, name string) {
	c.MarkFlagRequired(name)
	AddRule(c, func([]string) error {
		if !c.Flags().Changed(name) {
			return Error(c, "--%s is missing", name)
		}
		return nil
	})
}

// Exclusive: only one of the two flags may be there.
func Exclusive(c *cobra.Command, one, other string) {
	c.MarkFlagsMutuallyExclusive(one, other)
	AddRule(c, func([]string) error {
		if c.Flags().Changed(one) && c.Flags().Changed(other) {
			return Error(c, "--%s and --%s exclude each other", one, other)
		}
		return nil
	})
}

// OneOf: one of the two flags must be there.
func OneOf(c *cobra.Command, one, other string) {
	c.MarkFlagsOneRequired(one, other)
	AddRule(c, func([]string) error {
		if !c.Flags().Changed(one) && !c.Flags().Changed(other) {
			return Error(c, "--%s or --%s is missing", one, other)
		}
		return nil
	})
}

// NotEmpty: the flag may be left out. It must not be empty, as it is for an unset variable of the shell, nor may one
// element of a list.
func NotEmpty(c *cobra.Command, name string) {
	AddRule(c, func([]string) error {
		f := c.Flags().Lookup(name)
		list, isList := f.Value.(pflag.SliceValue)
		switch {
		case !f.Changed:
		case isList && slices.Contains(list.GetSlice(), ""):
			return Error(c, "--%s has an empty element", name)
		case isList && len(list.GetSlice()) == 0, f.Value.String() == "":
			return Error(c, "--%s is empty", name)
		}
		return nil
	})
}

// CompleteNothing keeps the shell from offering files for these flags.
func CompleteNothing(c *cobra.Command, flags ...string) {
	for _, name := range flags {
		c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}
