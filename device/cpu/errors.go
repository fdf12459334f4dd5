package cpu

import "fmt"

// idError says that element i of an integer input is outside 0..limit-1.
func idError(name string, i int, v int32, limit int) error {
	return fmt.Errorf("%s %d at %d: want at least 0 and less than %d", name, v, i, limit)
}

// checkIDs refuses ids outside of 0..limit-1; negative ones pass where allowed.
func checkIDs(name string, ids []int32, limit int, negative bool) error {
	for i, v := range ids {
		if int(v) >= limit || v < 0 && !negative {
			return idError(name, i, v, limit)
		}
	}
	return nil
}
