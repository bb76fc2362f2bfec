package gateway

import "time"

// SetTimes shortens what tests would wait for: the end of a closing execution, and a client that does not read.
func (g *Gateway) SetTimes(ending, write time.Duration) { g.endingFor, g.writeTimeout = ending, write }
