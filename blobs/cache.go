package blobs

import "container/list"

// cache keeps the parts that were used last, up to cacheSize bytes of them. The zero value is empty. Parts in it may not
// be changed.
type cache struct {
	parts map[string]*list.Element
	used  list.List // of *cached, the last one used first
	size  int
}

type cached struct {
	key  string
	part []byte
}

func (c *cache) get(key string) ([]byte, bool) {
	e, ok := c.parts[key]
	if !ok {
		return nil, false
	}
	c.used.MoveToFront(e)
	return e.Value.(*cached).part, true
}

func (c *cache) put(key string, part []byte) {
	if _, ok := c.get(key); ok {
		return
	}
	if c.parts == nil {
		c.parts = map[string]*list.Element{}
	}
	c.parts[key] = c.used.PushFront(&cached{key, part})
	for c.size += len(part); c.size > cacheSize; {
		last := c.used.Back()
		old := c.used.Remove(last).(*cached)
		delete(c.parts, old.key)
		c.size -= len(old.part)
	}
}
