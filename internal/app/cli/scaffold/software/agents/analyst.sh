#!/bin/sh
# An agent is a program: it reads a brief as JSON on standard input, changes files
# in its directory, and ends with status 0. What it changed is its work.
brief=$(cat)
requirement=$(printf %s "$brief" | sed -E 's/.*"requirement":"(([^"\]|\\.)*)".*/\1/; s/\\n/ /g; s/\\(.)/\1/g')

echo "writing the requirements down" >&2 # shown while it works
mkdir -p docs
cat > docs/requirements.md <<END
# Requirements

> $requirement

1. \`sh greet.sh NAME\` prints \`Hello, NAME!\`.
2. Without a name it greets the world.
END

# What others should know is a decision; the summary is for people.
echo '{"summary": "Two statements.", "decisions": {"program": "greet.sh"}}' > "$MAESTRO_RESULT"
