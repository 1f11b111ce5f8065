// Command joinlines rewrites Go code from its standard input to its standard output with each declaration in one line.
//
// A program has a table of the line of each instruction. Of generated code nobody reads the lines, and where each
// function has one, the table has 340 KB less.
package main

import (
	"bufio"
	"go/scanner"
	"go/token"
	"io"
	"log"
	"os"
)

func main() {
	log.SetFlags(0)
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal("joinlines: ", err)
	}
	out := bufio.NewWriter(os.Stdout)
	join(out, text)
	if err := out.Flush(); err != nil {
		log.Fatal("joinlines: ", err)
	}
}

// join writes the tokens of text. Comments are kept between declarations, where they can be directives of the compiler.
func join(out *bufio.Writer, text []byte) {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(text)), text, nil, scanner.ScanComments)
	for depth := 0; ; {
		_, found, literal := s.Scan()
		switch found {
		case token.EOF:
			return
		case token.LBRACE, token.LPAREN:
			depth++
		case token.RBRACE, token.RPAREN:
			depth--
		}
		switch {
		case found == token.COMMENT && depth > 0:
		case found == token.COMMENT:
			out.WriteString(literal + "\n")
		case found == token.SEMICOLON && depth == 0:
			out.WriteString("\n")
		case found == token.SEMICOLON:
			out.WriteString(";")
		case literal != "":
			out.WriteString(literal + " ")
		default:
			out.WriteString(found.String() + " ")
		}
	}
}
