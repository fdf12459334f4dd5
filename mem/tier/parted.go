package tier

import "sync/atomic"

// partBytes is as much of a copy as one goroutine does at a time where two share it.
const partBytes = 512 << 10

// Parted makes j a job that the stream and whoever waits for it do together, part by part. Its store must bear calls at once for bytes that do not
// overlap. What it returns is started over and over, but never while it is on the way.
func Parted(j Job) Job {
	if len(j.Buf) > partBytes && j.Parts == nil {
		j.Parts = &parted{job: j}
	}
	return j
}

// parted is the parts of a copy.
type parted struct {
	job Job
	at  atomic.Int64 // the first byte of the next part
}

// Begin begins the copy anew.
func (p *parted) Begin() { p.at.Store(0) }

// Do copies a part.
func (p *parted) Do(int) (bool, error) {
	lo := p.at.Add(partBytes) - partBytes
	if lo >= int64(len(p.job.Buf)) {
		return false, nil
	}
	part := Job{Store: p.job.Store, Write: p.job.Write, Off: p.job.Off + lo, Buf: p.job.Buf[lo:]}
	part.Buf = part.Buf[:min(len(part.Buf), partBytes)]
	return true, part.do()
}
