package gateway

import "time"

// SetTimes shortens what tests would wait for: the end of a closing execution, and a client that does not read.
func (g *Gateway) SetTimes(ending, write time.Duration) { g.endingFor, g.writeTimeout = ending, write }

// Rates are the buckets of all principals.
type Rates struct{ rates }

// Take takes a request.
func (r *Rates) Take(p Principal, perSecond float64, burst int, now time.Time) time.Duration {
	return r.take(p, perSecond, burst, now)
}

// Known is how many principals are remembered.
func (r *Rates) Known() int { return len(r.buckets) }
