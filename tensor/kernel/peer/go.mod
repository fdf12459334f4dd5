module loadline/tensor/kernel/peer

go 1.26.7

require loadline v0.0.0

require (
	github.com/ebitengine/purego v0.11.3
	golang.org/x/sys v0.50.0
)

replace loadline => ../../..
