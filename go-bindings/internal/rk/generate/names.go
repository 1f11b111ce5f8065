package main

import "strings"

// initialisms are the words that Go writes in capitals.
var initialisms = map[string]string{
	"abi": "ABI", "api": "API", "cidr": "CIDR", "cidrs": "CIDRs", "id": "ID", "ip": "IP", "ipv4": "IPv4", "ipv6": "IPv6",
	"ips": "IPs", "json": "JSON", "ok": "OK", "sctp": "SCTP", "tcp": "TCP", "udp": "UDP", "utf8": "UTF8",
}

// exported returns a name of C as Go writes it: rk_index_is_taken is IndexIsTaken.
func exported(name string) string {
	name = strings.TrimPrefix(strings.ToLower(name), "rk_")
	var all strings.Builder
	for _, word := range strings.Split(name, "_") {
		if special, ok := initialisms[word]; ok {
			all.WriteString(special)
		} else if word != "" {
			all.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return all.String()
}

// constantName keeps constants apart from structs and functions of the same name.
func constantName(name string) string {
	if name == "RK_ABI_VERSION" {
		return "HeaderABIVersion"
	}
	if rest, ok := strings.CutPrefix(name, "RK_STEP_"); ok {
		return "StepKind" + exported(rest)
	}
	return exported(name)
}

// local returns the name of a parameter.
func local(name string) string {
	name = exported(name)
	switch lower := strings.ToLower(name[:1]) + name[1:]; {
	case strings.HasPrefix(name, "IP"), strings.HasPrefix(name, "CIDR"):
		return strings.ToLower(name)
	case lower == "object", lower == "result", lower == "range", lower == "len", lower == "copy", lower == "error", lower == "string":
		return "the" + name
	default:
		return lower
	}
}

var scalars = map[string]string{
	"uint8_t": "uint8", "uint32_t": "uint32", "uint64_t": "uint64", "int32_t": "int32", "int64_t": "int64", "bool": "bool",
	"size_t": "uint", "rk_result": "Result", "char": "byte",
}

// goType returns the Go type of a C type without a pointer.
func goType(kind string) string {
	if scalar, ok := scalars[kind]; ok {
		return scalar
	}
	return exported(kind)
}
