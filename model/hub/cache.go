package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"loadline/internal/regular"
	"loadline/internal/whole"
)

// incompleteSuffix is behind the name of what is still coming.
const incompleteSuffix = ".incomplete"

// lockEvery is the time between two looks at a lock that another process holds.
const lockEvery = 200 * time.Millisecond

// A ref that another process is writing is looked at so often, and so many times; nobody takes longer to write 40 bytes.
const (
	refEvery = 20 * time.Millisecond
	refTries = 500
)

// Cached returns the directory of a model that a cache holds at a revision: where the hub's branch or tag was when it was last asked,
// or a commit. name is as ParseName reads it; an empty revision is DefaultRevision. Whether all files are there is for the reader to see.
func Cached(cache, name string) (dir string, ok bool) {
	n, err := ParseName(name, "")
	if err != nil || n.Repo == "" || n.File != "" {
		return "", false
	}
	if n.Revision == "" {
		n.Revision = DefaultRevision
	}
	root := filepath.Join(cache, folder(n.Repo))
	commit := n.Revision
	if !commitPattern.MatchString(commit) {
		text, err := regular.ReadAll(filepath.Join(root, "refs", filepath.FromSlash(n.Revision)), 2*maxNameBytes)
		if err != nil {
			return "", false
		}
		if commit = strings.TrimSpace(string(text)); !commitPattern.MatchString(commit) {
			return "", false
		}
	}
	dir = filepath.Join(root, "snapshots", commit)
	st, err := os.Stat(dir)
	return dir, err == nil && st.IsDir()
}

// Pulled is what Pull did.
type Pulled struct {
	Dir     string // the snapshot
	Bytes   int64  // of all files that were asked for
	Fetched int64  // that came over the network
}

// place is a model in a cache.
type place struct {
	root  string // models--ORG--NAME
	locks string
	dir   string // the snapshot
}

func (c *Client) place(l *Listing) place {
	root := filepath.Join(c.o.Cache, folder(l.Repo))
	return place{root, filepath.Join(c.o.Cache, ".locks", folder(l.Repo)), filepath.Join(root, "snapshots", l.Commit)}
}

func (p *place) blob(f *File) string { return filepath.Join(p.root, "blobs", f.ETag) }

// here tells whether the cache has a file's blob. One of another length is none.
func (p *place) here(f *File) bool {
	st, err := os.Stat(p.blob(f))
	return err == nil && st.Mode().IsRegular() && st.Size() == f.Bytes
}

// Pull fetches the files of a listing that the cache does not have, and returns the directory in which all of them are.
func (c *Client) Pull(ctx context.Context, l *Listing) (*Pulled, error) {
	if err := c.complete(ctx, l); err != nil {
		return nil, err
	}
	p := c.place(l)
	for _, dir := range []string{filepath.Join(p.root, "blobs"), filepath.Join(p.root, "refs"), p.dir, p.locks} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, fmt.Errorf("hub: %w", err)
		}
	}
	if err := p.room(l); err != nil {
		return nil, err
	}
	r := &Pulled{Dir: p.dir, Bytes: l.Bytes()}
	done := int64(0)
	for i := range l.Files {
		f := &l.Files[i]
		came, err := c.blob(ctx, &p, l, f, func(have, came int64) {
			c.o.Progress(Progress{File: f.Name, Done: done + have, All: r.Bytes, Fetched: r.Fetched + came})
		})
		r.Fetched += came
		if err == nil {
			err = c.link(ctx, &p, l, f)
		}
		if err != nil {
			return nil, err
		}
		done += f.Bytes
	}
	if l.Revision != l.Commit {
		if err := writeRef(filepath.Join(p.root, "refs", filepath.FromSlash(l.Revision)), l.Commit); err != nil {
			return nil, fmt.Errorf("hub: %w", err)
		}
	}
	return r, nil
}

// room compares what is missing with what the disk has.
func (p *place) room(l *Listing) error {
	need := int64(0)
	seen := map[string]bool{}
	for i := range l.Files {
		f := &l.Files[i]
		if seen[f.ETag] || p.here(f) {
			continue
		}
		seen[f.ETag] = true
		need += f.Bytes
		if st, err := os.Stat(p.blob(f) + incompleteSuffix); err == nil {
			need -= min(st.Size(), f.Bytes)
		}
	}
	return room(p.root, need)
}

// room refuses what the disk of a directory has no space for.
func room(dir string, need int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return nil // then writing tells
	}
	free := int64(min(uint64(st.Bavail)*uint64(st.Bsize), 1<<62))
	if need > free {
		return &SpaceError{Dir: dir, Need: need, Free: free}
	}
	return nil
}

// blob makes a file's bytes be in the cache, and returns how many came over the network.
func (c *Client) blob(ctx context.Context, p *place, l *Listing, f *File, tell func(have, came int64)) (came int64, err error) {
	if p.here(f) {
		tell(f.Bytes, 0)
		return 0, nil
	}
	what := l.Repo + " " + f.Name
	unlock, err := c.lock(ctx, filepath.Join(p.locks, f.ETag+".lock"), what)
	if err != nil {
		return 0, err
	}
	defer unlock()
	if p.here(f) { // who held the lock has fetched it
		tell(f.Bytes, 0)
		return 0, nil
	}
	file, err := openPartial(p.blob(f) + incompleteSuffix)
	if err != nil {
		return 0, fmt.Errorf("hub: %w", err)
	}
	t := &target{what: what, url: c.fileURL(l, f.Name), bytes: f.Bytes, kind: hashKind(f.ETag), want: f.ETag}
	return c.fetch(ctx, t, file, p.blob(f), tell)
}

// fetch goes on with what is in file, gives it its name when it is whole, and closes it.
func (c *Client) fetch(ctx context.Context, t *target, file *os.File, path string, tell func(have, came int64)) (came int64, err error) {
	partly, keep := file.Name(), true
	defer func() { // whoever waits for its lock sees it with its name, or gone, or as it was left
		if !keep {
			err = errors.Join(err, os.Remove(partly))
		}
		err = errors.Join(err, file.Close())
	}()
	p, err := newPartial(ctx, file, t)
	if err != nil {
		return 0, fmt.Errorf("hub: %s: %w", partly, err)
	}
	tell(p.have, 0)
	if err := c.transfer(ctx, p, func() { tell(p.have, p.came) }); err != nil {
		var sum *ChecksumError
		keep = p.have > 0 && !errors.As(err, &sum)
		return p.came, err
	}
	err = file.Sync()
	if err == nil && !is(file, partly) {
		return p.came, &BrokenError{What: t.what, Have: p.have, All: t.bytes, Err: errors.New("what had come was taken away")}
	}
	if err == nil {
		err = os.Rename(partly, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return p.came, fmt.Errorf("hub: %w", err)
	}
	return p.came, nil
}

// openPartial opens what has come of a file, or begins one.
func openPartial(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o666)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", path, regular.ErrNot)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// hold opens what has come of a file once no other process fetches it.
func (c *Client) hold(ctx context.Context, path, what string) (*os.File, error) {
	for {
		f, err := openPartial(path)
		if err != nil {
			return nil, fmt.Errorf("hub: %w", err)
		}
		if err := c.wait(ctx, f, what); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if is(f, path) {
			return f, nil
		}
		if err := f.Close(); err != nil { // it has its name by now, or was given up
			return nil, fmt.Errorf("hub: %w", err)
		}
	}
}

// is tells whether a path still names a file that was opened by it.
func is(f *os.File, path string) bool {
	opened, err := f.Stat()
	now, err2 := os.Lstat(path)
	return err == nil && err2 == nil && os.SameFile(opened, now)
}

// lock waits until no other process fetches a blob. Locks end with their process.
func (c *Client) lock(ctx context.Context, path, what string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NONBLOCK, 0o666)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	if err := c.wait(ctx, f, what); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { f.Close() }, nil // which gives the lock up; nothing was written
}

// wait locks a file when no other process has.
func (c *Client) wait(ctx context.Context, f *os.File, what string) error {
	for said := false; ; said = true {
		held, err := flock(f)
		if err != nil {
			return fmt.Errorf("hub: %s: %w", f.Name(), err)
		}
		if !held {
			return nil
		}
		if !said {
			c.o.Say(fmt.Sprintf("%s: waiting for another process that fetches it", what))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockEvery):
		}
	}
}

// flock locks a file, unless another process holds it.
func flock(f *os.File) (held bool, err error) {
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOLCK):
		return false, nil // a file system without locks: the last to rename wins, with the same bytes
	case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.EINTR):
		return true, nil
	default:
		return false, err
	}
}

// pointer is the snapshot's name of a file, and what it leads to.
func (p *place) pointer(f *File) (path, to string, err error) {
	path = filepath.Join(p.dir, filepath.FromSlash(f.Name))
	if to, err = filepath.Rel(filepath.Dir(path), p.blob(f)); err != nil {
		return "", "", fmt.Errorf("hub: %w", err)
	}
	return path, to, nil
}

// link makes the snapshot's name lead to the blob. Of processes that pull the same model one at a time does.
func (c *Client) link(ctx context.Context, p *place, l *Listing, f *File) error {
	pointer, to, err := p.pointer(f)
	if err != nil {
		return err
	}
	if now, err := os.Readlink(pointer); err == nil && now == to {
		return nil
	}
	unlock, err := c.lock(ctx, filepath.Join(p.locks, f.ETag+".lock"), l.Repo+" "+f.Name)
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.MkdirAll(filepath.Dir(pointer), 0o777); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	beside := pointer + whole.Suffix
	if err := os.Remove(beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("hub: %w", err)
	}
	err = os.Symlink(to, beside)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) { // a file system without links: huggingface_hub moves the file too
		err = os.Rename(p.blob(f), pointer)
	} else if err == nil {
		err = os.Rename(beside, pointer)
	}
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

// writeRef notes which commit a branch or tag is at.
func writeRef(path, commit string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	w, err := whole.Create(path)
	for range refTries { // another process that pulls the same has it for a moment
		if !errors.Is(err, whole.ErrBusy) {
			break
		}
		time.Sleep(refEvery)
		w, err = whole.Create(path)
	}
	if err != nil {
		return err
	}
	if _, err := w.Write([]byte(commit)); err != nil {
		return errors.Join(err, w.Abort())
	}
	return whole.Commit(w)
}

// syncDir makes a rename in the directory last.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
