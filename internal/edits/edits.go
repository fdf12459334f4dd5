// Package edits measures how far two texts are apart, for errors that name the nearest thing that exists. It compares bytes, so letters
// beyond ASCII count as several; it knows nothing of words or case.
package edits

// Distance is Levenshtein's: the fewest bytes to insert, leave out or change that make b of a.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
