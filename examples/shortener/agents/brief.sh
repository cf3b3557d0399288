# shellcheck shell=sh
# How both agents of the example read their brief and leave their result.

brief=$(cat)
input=0
output=0

# text KEY [DEFAULT] prints a text of the brief, without JSON's escapes.
text() {
	value=$(printf '%s\n' "$brief" |
		sed -n 's/.*"'"$1"'":"\([^"\\]*\(\\.[^"\\]*\)*\)".*/\1/p' |
		sed 's/\\"/"/g; s/\\u003c/</g; s/\\u003e/>/g; s/\\u0026/\&/g')
	printf '%b\n' "${value:-${2-}}"
}

# number KEY prints a number of the brief.
number() {
	printf '%s\n' "$brief" | sed -n 's/.*"'"$1"'":\([0-9][0-9]*\).*/\1/p'
}

# turn LINE INPUT OUTPUT stands for one turn of a model: it shows a line of progress,
# takes some time and uses tokens. It leaves a result, so that the usage is known even
# if the agent gets no further.
turn() {
	echo "$1" >&2
	sleep 0.3
	input=$((input + $2))
	output=$((output + $3))
	leave ""
}

# leave SUMMARY [DECISIONS] writes the result in one step. DECISIONS are the members of
# a JSON object.
leave() {
	printf '{"summary": "%s", "decisions": {%s}, "usage": {"input_tokens": %d, "output_tokens": %d}}\n' \
		"$1" "${2-}" "$input" "$output" > "$MAESTRO_RESULT.next"
	mv "$MAESTRO_RESULT.next" "$MAESTRO_RESULT"
}

# unknown fails the attempt.
unknown() {
	echo "$0 has no work for $(text phase)/$(text persona)" >&2
	exit 1
}
