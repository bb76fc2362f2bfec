package gateway

import (
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"
)

// rates bounds how often each principal may ask. A principal has a bucket of requests that fills at the rate; whoever is
// not known has a full one.
type rates struct {
	mu      sync.Mutex
	buckets map[Principal]*bucket
}

type bucket struct {
	left float64
	at   time.Time
}

// maxBuckets is how many principals are remembered before those are forgotten whose buckets are full again.
const maxBuckets = 10_000

// take takes a request from the principal's bucket, or says how long it takes until there is one.
func (r *rates) take(p Principal, perSecond float64, burst int, now time.Time) (wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.buckets[p]
	if b == nil {
		if len(r.buckets) >= maxBuckets {
			r.forget(perSecond, burst, now)
		}
		if r.buckets == nil {
			r.buckets = map[Principal]*bucket{}
		}
		b = &bucket{left: float64(burst), at: now}
		r.buckets[p] = b
	}
	b.left = b.full(perSecond, burst, now)
	b.at = now
	if b.left < 1 {
		return time.Duration((1 - b.left) / perSecond * float64(time.Second))
	}
	b.left--
	return 0
}

func (b *bucket) full(perSecond float64, burst int, now time.Time) float64 {
	return min(float64(burst), b.left+now.Sub(b.at).Seconds()*perSecond)
}

func (r *rates) forget(perSecond float64, burst int, now time.Time) {
	for p, b := range r.buckets {
		if b.full(perSecond, burst, now) >= float64(burst) {
			delete(r.buckets, p)
		}
	}
}

// crowd counts the streams of each tenant.
type crowd struct {
	mu      sync.Mutex
	streams map[string]int
}

func (c *crowd) enter(tenant string, most int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if most > 0 && c.streams[tenant] >= most {
		return false
	}
	if c.streams == nil {
		c.streams = map[string]int{}
	}
	c.streams[tenant]++
	return true
}

func (c *crowd) leave(tenant string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams[tenant]--; c.streams[tenant] == 0 {
		delete(c.streams, tenant)
	}
}

// checkRate refuses a request that comes too early.
func (g *Gateway) checkRate(p Principal) error {
	l := g.opt.Limits
	if l.Requests == 0 {
		return nil
	}
	wait := g.rates.take(p, l.Requests, l.Burst, time.Now())
	if wait == 0 {
		return nil
	}
	return &apiError{
		status: http.StatusTooManyRequests, Code: CodeRateLimited, Field: "requests", Limit: l.Burst, after: wait,
		Message: fmt.Sprintf("at most %d requests at once and %g a second are accepted; try again later", l.Burst, l.Requests),
	}
}

// streaming counts what answers with streams among those of its tenant. A run that is refused for that is not started.
func (g *Gateway) streaming(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request, p Principal) error {
		if most := g.opt.Limits.Streams; !g.crowd.enter(p.Tenant, most) {
			return &apiError{
				status: http.StatusTooManyRequests, Code: CodeStreamsLimited, Field: "streams", Limit: most, after: time.Second,
				Message: fmt.Sprintf("the tenant has %d open streams here, and may have no more", most),
			}
		}
		defer g.crowd.leave(p.Tenant)
		return h(w, r, p)
	}
}

// seconds is a time to wait as Retry-After has it.
func seconds(d time.Duration) int { return max(1, int(math.Ceil(d.Seconds()))) }
