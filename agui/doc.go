// Package agui is the AG-UI protocol, version 1.0.
package agui
