// Package planner decides how a model is trained, tuned or served on given hardware.
package planner
