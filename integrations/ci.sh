#!/bin/sh
# Runs espalier in CI: downloads a release, runs commands, and comments on the pull request or
# merge request. The GitHub action and the GitLab template use it, in any POSIX shell with git,
# curl, tar, awk, sed and sha256sum or shasum.
#
# usage: ci.sh install | run | comment | finish
#
# All values come from the environment, never from text that a shell expands:
#
#   ESPALIER_VERSION      version to install, such as v1.2.3, or latest; latest, with a notice, if empty
#   ESPALIER_RELEASES     URL of the releases: files are at VERSION/FILE below it
#   ESPALIER_LATEST       URL that redirects to the latest release, for ESPALIER_VERSION=latest
#   ESPALIER_COMMANDS     commands to run: lint, validate, test, diff, review
#   ESPALIER_PATHS        files and directories, one on each line
#   ESPALIER_FLAGS        further flags, one on each line
#   ESPALIER_FAIL_ON      lowest severity that fails: error, warning, info, never
#   ESPALIER_BASE         commit or branch for diff and review; if empty, that of the pull request:
#   ESPALIER_HEAD_SHA       head of the pull request: if HEAD merges it, the base is the other parent
#   ESPALIER_BASE_BRANCH    otherwise the branch that the pull request is for
#   ESPALIER_BASE_SHA       a commit of this branch, if the branch cannot be fetched
#   ESPALIER_DIRECTORY    directory to run in, relative to the root of the repository
#   ESPALIER_WORK         directory for the program and the reports, which are in reports/
#   ESPALIER_FORMAT       format of the log: text, github
#   ESPALIER_COMMENT_ID   name of the comment and of the runs in SARIF, if there are several
#   ESPALIER_TOKEN        token for comments
#   ESPALIER_RUN_URL      URL of this run, for comments
#
# run writes reports/summary.md, reports/*.sarif, reports/*.xml (JUnit) and reports/outputs, with
# lines NAME=VALUE. It also succeeds if commands fail; finish exits with their exit code.
set -u
LC_ALL=C
export LC_ALL

# The token is for comments only: programs that are run do not get it.
unset token
token=${ESPALIER_TOKEN:-}
unset ESPALIER_TOKEN

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
id=$(printf '%s' "${ESPALIER_COMMENT_ID:-espalier}" | tr -c 'A-Za-z0-9_.-' -)

# download URL FILE
download() {
	curl --silent --show-error --fail --location --retry 3 --retry-connrefused --max-time 300 --output "$2" "$1" 2>"$work/curl.log"
}

install_program() {
	mkdir -p "$work/bin" || exit 2
	version=${ESPALIER_VERSION:-latest}
	[ -n "${ESPALIER_RELEASES:-}" ] || fail 'ESPALIER_RELEASES is not set: set it to the URL of the releases, which has the files at VERSION/FILE'
	if [ "$version" = latest ]; then
		[ -n "${ESPALIER_LATEST:-}" ] || fail 'ESPALIER_LATEST is not set: set it to a URL that redirects to the latest release, or ESPALIER_VERSION to a version such as v1.2.3'
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
		fail "$archive has the SHA-256 $got, but checksums.txt of release $version lists $want: it is damaged"
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
	[ -n "${ESPALIER_VERSION:-}" ] ||
		problem notice "espalier $version is installed, the latest release, because no version is set: set the version to $version to pin it"
}

fetch() { GIT_TERMINAL_PROMPT=0 git fetch --quiet --no-tags "$@" >/dev/null 2>&1; }

is_shallow() { [ "$(git rev-parse --is-shallow-repository)" = true ]; }

# commit_of REVISION prints a commit if it is in the clone.
commit_of() { git rev-parse --verify --quiet "$1^{commit}"; }

# fetched_commit COMMIT prints a commit, and fetches it if it is not in the clone.
fetched_commit() {
	[ -n "$1" ] || return 1
	commit_of "$1" || { fetch origin "$1" && commit_of FETCH_HEAD; }
}

# fetched_branch NAME prints the commit of a branch of origin: the present one if it can be fetched.
fetched_branch() {
	[ -n "$1" ] || return 1
	fetch origin "+refs/heads/$1:refs/remotes/origin/$1"
	commit_of "refs/remotes/origin/$1"
}

# merge_parent prints the first parent of HEAD if HEAD merges the pull request into it, as CI
# systems do. The commit of the base branch in the event is often older: the changes after it are
# not those of the pull request.
merge_parent() {
	[ -n "${ESPALIER_HEAD_SHA:-}" ] || return 1
	# In a shallow clone, HEAD^1 does not exist, but the commit names its parents.
	parents=$(git cat-file commit HEAD 2>/dev/null | sed -n '/^$/q; s/^parent //p' | tr '\n' ' ')
	[ "${parents#* }" = "$ESPALIER_HEAD_SHA " ] || return 1
	if is_shallow && ! commit_of HEAD^1 >/dev/null; then
		fetch --depth=2 origin "$(git rev-parse HEAD)"
	fi
	fetched_commit "${parents%% *}"
}

# find_base prints the commit of the base. It makes sure that the merge base is in the clone, which
# is often shallow.
find_base() {
	case ${ESPALIER_BASE:-} in
	-*) return 1 ;;
	'') commit=$(merge_parent || fetched_branch "${ESPALIER_BASE_BRANCH:-}" || fetched_commit "${ESPALIER_BASE_SHA:-}") || return 1 ;;
	*) commit=$(commit_of "$ESPALIER_BASE" || fetched_branch "$ESPALIER_BASE" || fetched_commit "$ESPALIER_BASE") || return 1 ;;
	esac
	if ! git merge-base "$commit" HEAD >/dev/null 2>&1 && is_shallow; then
		fetch --unshallow origin
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

# cannot COMMAND TEXT reports a command that could not be run.
cannot() {
	problem error "$2"
	{
		printf '### %s\n\nThe command could not be run:\n\n' "$1"
		printf '%s\n' "$2" | tr '\r' '\n' | sed 's/^/    /'
		echo
	} >>"$reports/summary.md"
	code=2
}

# show_errors FILE prints the standard error of a command. It may contain names of files and other
# untrusted text, and GitHub runs commands in logs: after :: at the start of a line, and after ##[.
show_errors() {
	if [ "${ESPALIER_FORMAT:-text}" = github ]; then
		tr '\r' '\n' <"$1" | sed '/^espalier: /!s/^/espalier: /; s/##\[/# #[/g' >&2
	else
		cat "$1" >&2
	fi
}

run_commands() {
	rm -rf "$reports"
	mkdir -p "$reports/raw" || exit 2
	: >"$reports/summary.md"
	code=0 errors=0 warnings=0 infos=0 base=''
	commands=$(printf '%s' "${ESPALIER_COMMANDS:-review}" | tr ',\n\t' '   ')
	program=$(cat "$work/program") || fail "espalier is not installed"
	if ! cd "${ESPALIER_DIRECTORY:-.}" 2>/dev/null; then
		cannot espalier "the directory ${ESPALIER_DIRECTORY:-.} does not exist"
		commands=''
	fi
	prefix=$(git rev-parse --show-prefix 2>/dev/null)
	for command in $commands; do
		set -- "$command"
		case $command in
		lint | validate | test) ;;
		diff | review)
			if [ -z "${ESPALIER_BASE:-}${ESPALIER_BASE_BRANCH:-}${ESPALIER_BASE_SHA:-}" ]; then
				problem notice "$command is skipped: it compares with a base, and this run is not for a pull request or merge request"
				continue
			fi
			[ -n "$base" ] || base=$(find_base) || base=none
			if [ "$base" = none ]; then
				cannot "espalier $command" "cannot find the base \"${ESPALIER_BASE:-${ESPALIER_BASE_BRANCH:-$ESPALIER_BASE_SHA}}\" in the repository: set fetch-depth: 0 of actions/checkout, or GIT_DEPTH: 0 of GitLab"
				continue
			fi
			set -- "$@" "--base=$base"
			;;
		*)
			cannot espalier "unknown command \"$command\": it must be lint, validate, test, diff or review"
			continue
			;;
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
		show_errors "$reports/raw/$command.err"
		[ $result -le $code ] || code=$result
		if [ -s "$reports/raw/$command.md" ]; then
			cat "$reports/raw/$command.md" >>"$reports/summary.md"
			echo >>"$reports/summary.md"
		else # wrong flags: there is no report
			message=$(cat "$reports/raw/$command.err")
			case $message in
			*'needs PATH'*) message="$command needs files or directories: set the input paths of the GitHub action, or ESPALIER_PATHS of the GitLab template" ;;
			esac
			cannot "espalier $command" "$message"
		fi
		# Code scanning rejects runs of the same tool with the same ID.
		[ ! -s "$reports/raw/$command.sarif" ] || relocate sarif <"$reports/raw/$command.sarif" |
			sed '1s|"automationDetails":{"id":"espalier/|"automationDetails":{"id":"'"$id"'/|' >"$reports/$command.sarif"
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

# json_values prints the strings, numbers and literals of a JSON document, each with its path, as in
# /0/user/login, a tab, and octocat. Strings are as they are in the document, with escapes.
json_values() {
	awk '
	function print_value(text) {
		path = ""
		for (j = 1; j <= depth; j++) path = path "/" name[j]
		print path "\t" text
	}
	BEGIN { RS = "\"" } # Records are strings and what is between them.
	inside {
		text = text $0
		if (match($0, /\\+$/) && RLENGTH % 2) { text = text "\""; next }
		inside = 0
		if (list[depth] || colon) print_value(text)
		else name[depth] = text
		next
	}
	{
		n = split($0, chars, "")
		for (i = 1; i <= n; i++) {
			c = chars[i]
			if (c ~ /[],}]/ && literal != "") { print_value(literal); literal = "" }
			if (c == "[" || c == "{") { list[++depth] = (c == "["); name[depth] = list[depth] ? 0 : ""; colon = 0 }
			else if (c == "]" || c == "}") depth--
			else if (c == ",") { if (list[depth]) name[depth]++; colon = 0 }
			else if (c == ":") colon = 1
			else if (c !~ /[ \t\r\n]/) literal = literal c
		}
		text = ""; inside = 1
	}'
}

# response_value PATH prints a value of the response.
response_value() { json_values <"$work/response" | awk -F '\t' -v path="$1" '$1 == path { print $2 }'; }

# find_comment AUTHOR prints the id of the first comment in the response that starts with the marker
# and is from this author, and the number of comments, as in "17 3" or " 3". Others can write
# the marker, too.
find_comment() {
	json_values <"$work/response" | AUTHOR=$1 awk -F '\t' -v marker="$marker" '
	{ split($1, path, "/"); i = path[2]; if (i + 1 > comments) comments = i + 1 }
	$1 == "/" i "/id" { id[i] = $2 }
	$1 == "/" i "/user/login" || $1 == "/" i "/author/username" { author[i] = $2 }
	$1 == "/" i "/body" { gsub(/\\u003c/, "<", $2); gsub(/\\u003e/, ">", $2); found[i] = (index($2, marker) == 1) }
	END {
		for (i = 0; i < comments; i++) if (found[i] && author[i] == ENVIRON["AUTHOR"]) { result = id[i]; break }
		print result, comments + 0
	}'
}

# api METHOD URL [ARGUMENT...] sends a request. The response is in $work/response, and its code in
# status. The token is not an argument, because other processes can see these.
api() {
	method=$1 url=$2
	shift 2
	status=$(printf 'header = "%s"\n' "$authorization" |
		curl --config - --silent --show-error --fail-with-body --max-time 60 --request "$method" --output "$work/response" --write-out '%{http_code}' "$@" "$url" 2>"$work/curl.log")
}

# comment_author prints the name of the author of comments with this token.
comment_author() {
	if [ $update = PUT ]; then
		api GET "$CI_API_V4_URL/user" && response_value /username
	elif api GET "$GITHUB_API_URL/user"; then
		response_value /login
	else # The token belongs to an app, such as that of workflows.
		name=$(api POST "${GITHUB_GRAPHQL_URL:-$GITHUB_API_URL/graphql}" --data '{"query":"{viewer{login}}"}' && response_value /data/viewer/login)
		name=${name:-github-actions}
		printf '%s[bot]\n' "${name%\[bot\]}"
	fi
}

# comment creates the comment, or updates the one of an earlier run.
comment() {
	[ -s "$reports/outputs" ] || exit 0 # nothing was run
	marker="<!-- espalier: $id -->"
	if [ -n "${CI_MERGE_REQUEST_IID:-}" ]; then
		comments=$CI_API_V4_URL/projects/$CI_MERGE_REQUEST_PROJECT_ID/merge_requests/$CI_MERGE_REQUEST_IID/notes
		comment=$comments
		authorization="PRIVATE-TOKEN: $token"
		update=PUT
	elif [ -n "${ESPALIER_PULL_REQUEST:-}" ]; then
		comments=$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/issues/$ESPALIER_PULL_REQUEST/comments
		comment=$GITHUB_API_URL/repos/$GITHUB_REPOSITORY/issues/comments
		authorization="Authorization: Bearer $token"
		update=PATCH
	else
		exit 0
	fi
	if [ -z "$token" ]; then
		problem warning 'cannot comment: there is no token'
		exit 0
	fi
	if ! author=$(comment_author) || [ -z "$author" ]; then
		problem warning "cannot read the user of the token: $(cat "$work/curl.log")"
		exit 0
	fi
	existing=''
	page=1
	while [ $page -le 30 ]; do
		if ! api GET "$comments?per_page=100&page=$page"; then
			problem warning "cannot read the comments: $(cat "$work/curl.log")"
			exit 0
		fi
		found=$(find_comment "$author")
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
	if [ -n "$existing" ]; then
		api $update "$comment/$existing" "$@" && return 0
		case $status in
		403 | 404) ;; # It is deleted, or someone else's.
		*)
			problem warning "cannot update the comment: $(cat "$work/curl.log")"
			return 0
			;;
		esac
	fi
	api POST "$comments" "$@" || problem warning "cannot comment: $(cat "$work/curl.log")"
	return 0
}

case ${1:-} in
install) install_program ;;
run) run_commands ;;
comment) comment ;;
finish)
	code=$(recorded exit-code)
	exit "${code:-2}"
	;;
*) fail 'usage: ci.sh install | run | comment | finish' ;;
esac
