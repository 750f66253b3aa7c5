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

# What issue 4 wants of two programs on one host.
function judge_shm(id, what, mode)
{
	if (id == "P1" && what ~ /^round trip.*(mean|p50)/)
		want("TCP <= 1/60", field("ratio"), 1 / 60, 0)
	if (id == "P1" && what ~ /busy.*(mean|p50)/)
		want("busy <= 1/9", field("ratio"), 1 / 9, 0)
	if (id == "P2" && what ~ /(mean|p50)/)
		want("TCP <= 0.8", field("ratio"), 0.8, 0)
	if (id == "P3" && what ~ /(mean|p50)/)
		want("TCP <= 1/40", field("ratio"), 1 / 40, 0)
	if (id == "P4" && what ~ /messages$/)
		want("TCP >= 30", field("ratio"), 30, 1)
	if (id == "P5" && what ~ /writes$/)
		want("TCP >= 3", field("ratio"), 3, 1)
	if (id == "P6" && what ~ /rps/) {
		least = mode == "-c 1" ? 6 : mode == "-c 50" ? 2.5 : 1.3
		want("TCP >= " least, field("ratio"), least, 1)
	}
	if (id == "P7" && what ~ /rps/)
		want("TCP >= 1.5", field("ratio"), 1.5, 1)
	if (id == "P12" && what ~ /^rate/)
		want(">= 0.9", field("shim"), 0.9, 1)
	if (id == "P13" && what ~ /close/)
		want("TCP >= 0.95", field("ratio"), 0.95, 1)
	if (id == "P14" && what ~ /CPU/)
		want("TCP <= 0.65", field("ratio"), 0.65, 0)
	if (id == "P17")
		want("extra < 0.3", field("shim") == "-" ? "-" : field("shim") - field("plain"), 0.3, 0)
}

function judge(id, what, mode)
{
	verdict = ""
	judge_shm(id, what, mode)
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
	if (field("why") != "-")
		verdict = verdict field("why") "; "
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
