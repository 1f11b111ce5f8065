package rangekeeper

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Texts of every length, in buffers with and without room for them, stand in the batch as they are.
func TestServicesAdd(t *testing.T) {
	const same = 1<<32 - 1
	letters := "abcdefghijklmnopqrstuvwxyz"
	cases := 0
	for length := range len(letters) + 1 {
		for room := range 2 * len(letters) {
			for _, clusterIPs := range [][]string{{letters[:length]}, {strings.Clone(letters[:length])}, nil, {""}, {letters[:length], "fd00::1"}, {"10.0.0.1", "10.0.0.1"}} {
				services := Services{batch: batch{text: append(make([]byte, 0, 1+room), '.')}}
				services.Add(letters[:length], clusterIPs)
				words, text, before := []uint32{uint32(1 + len(clusterIPs)), 0, uint32(length)}, "."+letters[:length], letters[:length]
				for _, clusterIP := range clusterIPs {
					if clusterIP == before {
						words = append(words, same)
					} else {
						words, text, before = append(words, uint32(len(clusterIP))), text+clusterIP, clusterIP
					}
				}
				if !slices.Equal(services.words, words) || !bytes.Equal(services.text, []byte(text)) || services.Len() != 1 {
					t.Fatalf("%q, %q: %d words %v, text %q", letters[:length], clusterIPs, services.Len(), services.words, services.text)
				}
				cases++
			}
		}
	}
	t.Logf("%d cases", cases)
}

// TestClaims reads the claims of more Services than fit on a page, among them damaged ones.
func TestClaims(t *testing.T) {
	var services Services
	var want []Claim
	claims := func(values ...Value) {
		for _, value := range values {
			claim := Claim{Value: value, Service: services.Len() - 1}
			if !value.IsPort() {
				claim.Text = value.String()
			}
			want = append(want, claim)
		}
	}
	for i := range 3000 {
		first, second := must(ParseValue(fmt.Sprintf("10.0.%d.%d", i/250, 1+i%250))), must(ParseValue(fmt.Sprintf("fd00::%x", i)))
		services.Add(first.String(), []string{first.String(), second.String()})
		services.AddPort("TCP", int32(30000+i%100))
		services.AddPort("UDP", int32(30000+i%100))
		services.SetHealthCheckNodePort(int32(31000 + i%100))
		claims(first, second, PortValue(uint16(30000+i%100)), PortValue(uint16(31000+i%100)))
	}
	services.Add("", []string{"10.0.0.7"})
	services.Add("None", nil)
	services.Add("10.0.0", []string{"10.0.0", "010.1.0.1", ""})
	services.AddPort("TCP", 70000)
	at := services.Len() - 1
	want = append(want, Claim{Text: "10.0.0", Service: at}, Claim{must(ParseValue("10.1.0.1")), "010.1.0.1", at}, Claim{Service: at})
	if got := must(services.Claims()); !slices.Equal(got, want) {
		t.Errorf("%d claims, want %d", len(got), len(want))
	}
	services.Reset()
	if got := must(services.Claims()); len(got) != 0 {
		t.Error(got)
	}
}
