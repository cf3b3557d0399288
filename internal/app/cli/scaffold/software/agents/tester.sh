#!/bin/sh
# Writes the tests, which the check `tests` of agents.yaml runs. A tester that finds
# the program wanting could send it back, by writing its reasons as the result:
#   {"sends_back": {"reasons": ["greet.sh fails without a name"]}}
cat > /dev/null # the brief; nothing in it matters here

cat > test.sh <<'END'
set -e
test "$(sh greet.sh Ada)" = "Hello, Ada!"
test "$(sh greet.sh)" = "Hello, world!"
END
echo '{"summary": "Two tests, one for each statement."}' > "$MAESTRO_RESULT"
