package rangekeeper

import (
	"bytes"
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
