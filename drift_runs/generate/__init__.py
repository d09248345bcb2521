"""Pure judging of generated text: what a rollout, a branch or a tool call says about drift."""
