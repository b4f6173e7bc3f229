#!/bin/sh
# Runs espalier in CI: downloads a release, runs commands, and comments on the pull request or
# merge request. The GitHub action and the GitLab template use it, in any POSIX shell with git,
# curl, tar, awk, sed and sha256sum or shasum.
#
# usage: ci.sh install | run | comment | finish
#
# All values come from the environment, never from text that a shell expands:
#
#   ESPALIER_VERSION     version to install, such as v1.2.3, or latest
#   ESPALIER_RELEASES    URL of the releases: files are at VERSION/FILE below it
#   ESPALIER_LATEST      URL that redirects to the latest release, for ESPALIER_VERSION=latest
#   ESPALIER_COMMANDS    commands to run: lint, validate, test, diff, review
#   ESPALIER_PATHS       files and directories, one on each line
#   ESPALIER_FLAGS       further flags, one on each line
#   ESPALIER_FAIL_ON     lowest severity that fails: error, warning, info, never
#   ESPALIER_BASE        commit or branch for diff and review
#   ESPALIER_DIRECTORY   directory to run in, relative to the root of the repository
#   ESPALIER_WORK        directory for the program and the reports, which are in reports/
#   ESPALIER_FORMAT      format of the log: text, github
#   ESPALIER_COMMENT_ID  name of the comment, if there are several
#   ESPALIER_RUN_URL     URL of this run, for comments
#
# run writes reports/summary.md, reports/*.sarif, reports/*.xml (JUnit) and reports/outputs, with
# lines NAME=VALUE. It succeeds if the commands could be run; finish exits with their exit code.
set -u
LC_ALL=C
export LC_ALL

fail() {
	problem error "$1"
	exit 2
}

# problem SEVERITY TEXT reports something that is no finding.
problem() {
	if [ "${ESPALIER_FORMAT:-text}" = github ]; then
		printf '::%s title=espalier::%s\n' "$1" "$(printf '%s' "$2" | tr '\r\n' '  ' | sed 's/%/%25/g')"
	else
		printf 'espalier: %s: %s\n' "$1" "$2" >&2
	fi
}

# output NAME VALUE records a result.
output() {
	printf '%s=%s\n' "$1" "$(printf '%s' "$2" | tr '\r\n' '  ')" >>"$reports/outputs"
}

work=${ESPALIER_WORK:?is not set}
reports=$work/reports

# download URL FILE
download() {
	curl --silent --show-error --fail --location --retry 3 --retry-connrefused --max-time 300 --output "$2" "$1" 2>"$work/curl.log"
}

install_program() {
	mkdir -p "$work/bin" || exit 2
	version=${ESPALIER_VERSION:-latest}
	if [ "$version" = latest ]; then
		version=$(curl --silent --show-error --max-time 60 --retry 3 --output /dev/null --write-out '%{redirect_url}' "$ESPALIER_LATEST") || version=
		version=${version##*/}
		[ -n "$version" ] || fail "there is no latest release at $ESPALIER_LATEST: set the version"
	fi
	case $version in
	*[!A-Za-z0-9.+-]*) fail "the version \"$version\" is not a version such as v1.2.3" ;;
	v[0-9]*) ;;
	[0-9]*) version=v$version ;;
	*) fail "the version \"$version\" is not a version such as v1.2.3" ;;
	esac

	os=$(uname -s)
	case $os in
	Linux) os=linux ;;
	Darwin) os=darwin ;;
	MINGW* | MSYS* | CYGWIN* | Windows*) os=windows ;;
	*) fail "there is no release for the operating system $os" ;;
	esac
	arch=$(uname -m)
	case $arch in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) fail "there is no release for the processor $arch" ;;
	esac
	archive=espalier-cli_${version#v}_${os}_$arch.tar.gz
	[ $os != windows ] || archive=${archive%.tar.gz}.zip

	download "$ESPALIER_RELEASES/$version/checksums.txt" "$work/checksums.txt" ||
		fail "cannot download release $version: $ESPALIER_RELEASES/$version/checksums.txt: $(cat "$work/curl.log")"
	download "$ESPALIER_RELEASES/$version/$archive" "$work/$archive" ||
		fail "cannot download release $version: $ESPALIER_RELEASES/$version/$archive: $(cat "$work/curl.log")"
	want=$(awk -v name="$archive" '{ sub(/^\*/, "", $2) } $2 == name { print $1 }' "$work/checksums.txt")
	[ -n "$want" ] || fail "checksums.txt of release $version does not list $archive"
	if command -v sha256sum >/dev/null; then
		got=$(sha256sum <"$work/$archive")
	else
		got=$(shasum -a 256 <"$work/$archive")
	fi
	got=${got%% *}
	if [ "$got" != "$want" ]; then
		rm -f "$work/$archive"
		fail "$archive has the SHA-256 $got, but checksums.txt of release $version lists $want: it is damaged or was replaced"
	fi
	if [ $os = windows ]; then
		unzip -q -o "$work/$archive" -d "$work/bin" || fail "cannot unpack $archive"
	else
		tar -xzf "$work/$archive" -C "$work/bin" || fail "cannot unpack $archive"
	fi
	program=$work/bin/espalier
	[ $os != windows ] || program=$program.exe
	[ -f "$program" ] || fail "$archive has no program espalier"
	printf '%s\n' "$program" >"$work/program"
	"$program" version || fail "the program of release $version does not run"
}

# fetch_base makes sure that the merge base is in the clone, which is often shallow. It prints the
# commit.
fetch_base() {
	base=${ESPALIER_BASE:-}
	case $base in
	'' | -*) return 1 ;;
	esac
	if ! commit=$(git rev-parse --verify --quiet "$base^{commit}"); then
		if git fetch --quiet --no-tags origin "+refs/heads/$base:refs/remotes/origin/$base" >&2 2>/dev/null; then
			commit=$(git rev-parse --verify --quiet "refs/remotes/origin/$base^{commit}")
		elif git fetch --quiet --no-tags origin "$base" >&2 2>/dev/null; then
			commit=$(git rev-parse --verify --quiet 'FETCH_HEAD^{commit}')
		else
			return 1
		fi
	fi
	if ! git merge-base "$commit" HEAD >/dev/null 2>&1 && [ "$(git rev-parse --is-shallow-repository)" = true ]; then
		git fetch --quiet --no-tags --unshallow origin >&2
	fi
	printf '%s\n' "$commit"
}

# relocate KIND prefixes the paths of a report with the directory, because GitHub expects paths
# that are relative to the root of the repository.
relocate() {
	if [ -z "$prefix" ]; then
		cat
	elif [ "$1" = sarif ]; then
		# Records are what quotes separate: strings and what is between them.
		PREFIX=$(printf '%s' "$prefix" | sed 's/%/%25/g; s/ /%20/g; s/"/%22/g; s/#/%23/g; s/</%3C/g; s/>/%3E/g; s/?/%3F/g; s/\\/%5C/g; s/`/%60/g') awk '
		BEGIN { RS = "\""; ORS = "" }
		NR > 1 { print "\"" }
		inside {
			if (key == "uri" && value && $0 !~ /^([A-Za-z][A-Za-z0-9+.-]*:|\/)/) print ENVIRON["PREFIX"]
			print; text = text $0
			if (match($0, /\\+$/) && RLENGTH % 2) { text = text "\""; next }
			key = text; inside = 0; next
		}
		{ print; value = ($0 ~ /^[ \t\n]*:[ \t\n]*$/); if (!value) key = ""; text = ""; inside = 1 }'
	else
		PREFIX=$(printf '%s' "$prefix" | sed 's/%/%25/g; s/:/%3A/g; s/,/%2C/g') awk '
		/^::(error|warning|notice) file=[^\/]/ { i = index($0, " file=") + 5; $0 = substr($0, 1, i) ENVIRON["PREFIX"] substr($0, i + 1) }
		{ print }'
	fi
}

run_commands() {
	program=$(cat "$work/program") || fail "espalier is not installed"
	rm -rf "$reports"
	mkdir -p "$reports/raw" || exit 2
	cd "${ESPALIER_DIRECTORY:-.}" || fail "the directory ${ESPALIER_DIRECTORY:-.} does not exist"
	prefix=$(git rev-parse --show-prefix 2>/dev/null)
	commands=$(printf '%s' "${ESPALIER_COMMANDS:-review}" | tr ',\n\t' '   ')
	code=0 errors=0 warnings=0 infos=0 base=''
	: >"$reports/summary.md"
	for command in $commands; do
		set -- "$command"
		case $command in
		lint | validate | test) ;;
		diff | review)
			if [ -z "${ESPALIER_BASE:-}" ]; then
				problem notice "$command is skipped: it compares with a base, and this run is not for a pull request or merge request"
				continue
			fi
			[ -n "$base" ] || base=$(fetch_base) || fail "cannot find the base \"$ESPALIER_BASE\" in the repository: set fetch-depth: 0 of actions/checkout, or GIT_DEPTH: 0 of GitLab"
			set -- "$@" "--base=$base"
			;;
		*) fail "unknown command \"$command\": it must be lint, validate, test, diff or review" ;;
		esac
		[ -z "${ESPALIER_FAIL_ON:-}" ] || set -- "$@" "--fail-on=$ESPALIER_FAIL_ON"
		set -- "$@" -o "${ESPALIER_FORMAT:-text}" -o "json=$reports/raw/$command.json" -o "markdown=$reports/raw/$command.md" \
			-o "sarif=$reports/raw/$command.sarif" -o "junit=$reports/$command.xml"
		# Lines become arguments: no word splitting, no patterns, no commands.
		while IFS= read -r line; do
			[ -z "$line" ] || set -- "$@" "$line"
		done <<-END
			${ESPALIER_FLAGS:-}
		END
		set -- "$@" --
		while IFS= read -r line; do
			[ -z "$line" ] || set -- "$@" "$line"
		done <<-END
			${ESPALIER_PATHS:-}
		END
		"$program" "$@" >"$reports/raw/$command.log" 2>"$reports/raw/$command.err"
		result=$?
		relocate annotations <"$reports/raw/$command.log"
		cat "$reports/raw/$command.err" >&2
		[ $result -le $code ] || code=$result
		if [ -s "$reports/raw/$command.md" ]; then
			cat "$reports/raw/$command.md" >>"$reports/summary.md"
			echo >>"$reports/summary.md"
		else # wrong flags: there is no report
			problem error "$(cat "$reports/raw/$command.err")"
			{
				printf '### espalier %s\n\nThe command failed with exit code %s:\n\n' "$command" "$result"
				sed 's/^/    /' "$reports/raw/$command.err"
				echo
			} >>"$reports/summary.md"
		fi
		[ ! -s "$reports/raw/$command.sarif" ] || relocate sarif <"$reports/raw/$command.sarif" >"$reports/$command.sarif"
		summary=$(sed -n '$s/.*"summary"://p' "$reports/raw/$command.json" 2>/dev/null)
		errors=$((errors + $(count errors "$summary")))
		warnings=$((warnings + $(count warnings "$summary")))
		infos=$((infos + $(count infos "$summary")))
	done
	output exit-code $code
	output errors $errors
	output warnings $warnings
	output infos $infos
	output summary "$reports/summary.md"
	if ls "$reports"/*.sarif >/dev/null 2>&1; then
		mkdir -p "$reports/sarif" && mv "$reports"/*.sarif "$reports/sarif/"
		output sarif "$reports/sarif"
	else
		output sarif ''
	fi
}

# count NAME SUMMARY prints a number of the summary of a report.
count() {
	number=$(printf '%s' "$2" | sed -n 's/.*"'"$1"'":\([0-9][0-9]*\).*/\1/p')
	echo "${number:-0}"
}

# recorded NAME prints a result of run.
recorded() { sed -n "s/^$1=//p" "$reports/outputs"; }

# comment_text prints the comment: a marker to find it again, and the summary within the limit of
# a comment, 65,536 characters.
comment_text() {
	printf '%s\n' "$marker"
	awk -v limit=60000 -v run="${ESPALIER_RUN_URL:-}" '{
		size += length($0) + 1
		if (size > limit) {
			printf "\n… The report is longer than a comment may be%s.\n", (run == "" ? "" : ": [all of it](" run ")")
			exit
		}
		print
	}' "$reports/summary.md"
}

# json_string prints standard input as a JSON string.
json_string() {
	tr -d '\000-\010\013\014\016-\037' | awk 'BEGIN { printf "\"" }
	{ gsub(/\\/, "&&"); gsub(/"/, "\\\""); gsub(/\t/, "\\t"); gsub(/\r/, "\\r"); printf "%s%s", (NR > 1 ? "\\n" : ""), $0 }
	END { printf "\"" }'
}

# find_comment prints the id of the object in a JSON list whose body starts with the marker, and
# the number of objects, as in "17 3" or " 3".
find_comment() {
	awk -v marker="$marker" 'BEGIN { RS = "\"" }
	inside {
		text = text $0
		if (match($0, /\\+$/) && RLENGTH % 2) { text = text "\""; next }
		inside = 0
		if (value) {
			gsub(/\\u003c/, "<", text); gsub(/\\u003e/, ">", text)
			if (depth == 2 && key == "body" && index(text, marker) == 1) found = 1
			key = ""
		} else key = text
		next
	}
	{
		value = ($0 ~ /^[ \t\r\n]*:[ \t\r\n]*$/)
		if (depth == 2 && key == "id" && match($0, /^[ \t\r\n]*:[ \t\r\n]*[0-9]+/)) {
			id = substr($0, 1, RLENGTH); gsub(/[^0-9]/, "", id)
		}
		n = split($0, chars, "")
		for (i = 1; i <= n; i++) {
			if (chars[i] == "[" || chars[i] == "{") { depth++; if (depth == 2) { objects++; id = ""; found = 0 } }
			if (chars[i] == "]" || chars[i] == "}") { if (depth == 2 && found && result == "") result = id; depth-- }
		}
		if (!value) key = ""
		text = ""; inside = 1
	}
	END { print result, objects + 0 }'
}

# api METHOD URL [ARGUMENT...] sends a request; the response is in $work/response. The token is
# not an argument, because other processes can see these.
api() {
	method=$1 url=$2
	shift 2
	printf 'header = "%s"\n' "$authorization" |
		curl --config - --silent --show-error --fail-with-body --max-time 60 --request "$method" --output "$work/response" "$@" "$url" 2>"$work/curl.log"
}

# comment creates the comment, or updates the one of an earlier run.
comment() {
	[ -s "$reports/outputs" ] || exit 0 # nothing was run
	id=$(printf '%s' "${ESPALIER_COMMENT_ID:-espalier}" | tr -c 'A-Za-z0-9_.-' -)
	marker="<!-- espalier: $id -->"
	if [ -n "${CI_MERGE_REQUEST_IID:-}" ]; then
		comments=$CI_API_V4_URL/projects/$CI_MERGE_REQUEST_PROJECT_ID/merge_requests/$CI_MERGE_REQUEST_IID/notes
		authorization="PRIVATE-TOKEN: ${ESPALIER_TOKEN:-}"
		update=PUT
	elif [ -n "${ESPALIER_PULL_REQUEST:-}" ]; then
		comments=$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/issues/$ESPALIER_PULL_REQUEST/comments
		authorization="Authorization: Bearer ${ESPALIER_TOKEN:-}"
		update=PATCH
	else
		exit 0
	fi
	if [ -z "${ESPALIER_TOKEN:-}" ]; then
		problem warning 'cannot comment: there is no token'
		exit 0
	fi
	existing=''
	page=1
	while [ $page -le 30 ]; do
		if ! api GET "$comments?per_page=100&page=$page"; then
			problem warning "cannot read the comments: $(cat "$work/curl.log")"
			exit 0
		fi
		found=$(find_comment <"$work/response")
		existing=${found% *}
		if [ -n "$existing" ] || [ "${found#* }" -lt 100 ]; then break; fi
		page=$((page + 1))
	done
	if [ -z "$existing" ] && [ "$(recorded exit-code)" = 0 ] && [ "$(recorded errors)$(recorded warnings)$(recorded infos)" = 000 ]; then
		exit 0 # nothing to say, and nothing that was said before
	fi
	{
		printf '{"body":'
		comment_text | json_string
		printf '}'
	} >"$work/comment.json"
	set -- --header 'Content-Type: application/json' --data-binary "@$work/comment.json"
	if [ -z "$existing" ]; then
		api POST "$comments" "$@" || problem warning "cannot comment: $(cat "$work/curl.log")"
		return 0
	fi
	[ $update = PUT ] || comments=$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/issues/comments
	api $update "$comments/$existing" "$@" || problem warning "cannot update the comment: $(cat "$work/curl.log")"
	return 0
}

case ${1:-} in
install) install_program ;;
run) run_commands ;;
comment) comment ;;
finish) exit "$(recorded exit-code)" ;;
*) fail 'usage: ci.sh install | run | comment | finish' ;;
esac
