# SPDX-License-Identifier: MIT
#
# Prints the rows of a bench file (JSON lines of row.awk) as a table, with what the project wants
# of each: awk -f table.awk FILE. "met" and "missed" are about medians; "-" means not measured.

function field(name,    at, rest)
{
	if (!match($0, "\"" name "\": (\"[^\"]*\"|[^,}]*)"))
		return "-"
	rest = substr($0, RSTART + length(name) + 4, RLENGTH - length(name) - 4)
	gsub(/"/, "", rest)
	return rest == "null" || rest == "" ? "-" : rest
}

function want(rule, value, limit, above)
{
	if (value == "-")
		verdict = verdict rule ": not measured; "
	else if (above ? value + 0 >= limit : value + 0 <= limit)
		verdict = verdict rule ": met; "
	else
		verdict = verdict rule ": MISSED; "
}

function judge(id, what, mode)
{
	verdict = ""
	if (id == "P8" && what !~ /p99/ && mode ~ /^(awake|asleep)$/) {
		want("raw <= 1.25", field("vs_raw"), 1.25, 0)
		if (mode == "awake")
			want("TCP <= 0.65", field("ratio"), 0.65, 0)
	}
	if (id == "P9" && mode ~ /^(awake|asleep)$/)
		want("raw >= 0.85", field("vs_raw"), 0.85, 1)
	if (id == "P10" && mode == "-c 8" && what ~ /rps/)
		want("TCP >= 1.0", field("ratio"), 1.0, 1)
	if (id == "P11" && what ~ /redis/)
		want("TCP >= 0.98", field("ratio"), 0.98, 1)
	if (id == "P11" && what ~ /time/)
		want("extra < 5 ms", field("shim") - field("plain"), 5000, 0)
	if (id == "P11" && what ~ /memory/)
		want("extra < 2 MiB", field("shim") - field("plain"), 2048, 0)
	if (id == "P15" && what ~ /^(registrations after|RNR)/)
		want("0", field("shim"), 0, 0)
	if (id == "P15" && what ~ /^work requests per chunk/)
		want("<= 1", field("shim"), 1, 0)
	if (id == "P15" && what ~ /^signalled/)
		want("<= 1/16", field("shim"), 0.0625, 0)
	return substr(verdict, 1, length(verdict) - 2)
}

field("id") == "env" { print; next }
!header++ {
	printf "\n%-4s %-36s %-10s %10s %10s %10s %10s %7s %7s %15s %-6s %s\n", "id", "what", \
		"mode", "plain", "shim", "raw", "rsocket", "ratio", "vs raw", "95 % of ratio", \
		"unit", "wanted"
}
{
	range = field("low") == "-" ? "-" : sprintf("%.3f-%.3f", field("low"), field("high"))
	printf "%-4s %-36s %-10s %10s %10s %10s %10s %7s %7s %15s %-6s %s\n", field("id"), \
		field("what"), field("mode"), field("plain"), field("shim"), field("raw"), \
		field("rsocket"), field("ratio"), field("vs_raw"), range, field("unit"), \
		judge(field("id"), field("what"), field("mode"))
}
