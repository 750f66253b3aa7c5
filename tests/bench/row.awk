# SPDX-License-Identifier: MIT
#
# One row of a benchmark: reads the samples of its pairs, prints the JSON line of the row.
#
#   awk -f row.awk -v id=P8 -v what=... -v mode=... -v where=... -v unit=... FILE
#
# Each line of FILE is one round: "plain shim raw rsocket", "-" where something wasn't measured.
# plain, shim, raw and rsocket are medians over the rounds, ratio and vs_raw quotients of medians.
# low and high are Student's 95 % interval of the mean of log(shim / plain) over the rounds in
# which both were measured: the two runs of a round are neighbours in time, so what disturbs the
# machine for longer than a round cancels out.
#
# why, when it isn't empty, says why something wasn't measured.
#
# awk, because every Debian has it: the benches then need nothing that the library doesn't. A
# bootstrap over five pairs can't reach 95 %; Student's distribution can.

function median(values, count,    i, j, swap)
{
	if (count == 0)
		return ""
	for (i = 2; i <= count; i++)
		for (j = i; j > 1 && values[j - 1] > values[j]; j--) {
			swap = values[j]
			values[j] = values[j - 1]
			values[j - 1] = swap
		}
	if (count % 2)
		return values[(count + 1) / 2]
	return (values[count / 2] + values[count / 2 + 1]) / 2
}

function quantile(degrees,    table)
{
	split("12.706 4.303 3.182 2.776 2.571 2.447 2.365 2.306 2.262 2.228 2.201 2.179 2.160 " \
	      "2.145 2.131 2.120 2.110 2.101 2.093 2.086 2.080 2.074 2.069 2.064 2.060 2.056 " \
	      "2.052 2.048 2.045 2.042", table, " ")
	return degrees <= 30 ? table[degrees] : 1.96 + 2.5 / degrees
}

function number(value)
{
	return value == "" ? "null" : sprintf("%.5g", value) + 0
}

function quotient(above, below)
{
	return above == "" || below == "" || below == 0 ? "" : above / below
}

$1 != "-" { plain[++plains] = $1 }
$2 != "-" { shim[++shims] = $2 }
$3 != "-" { raw[++raws] = $3 }
$4 != "-" { rsocket[++rsockets] = $4 }
$1 != "-" && $2 != "-" && $1 > 0 && $2 > 0 {
	pairs++
	sum += log($2 / $1)
	squares += log($2 / $1) ^ 2
}

END {
	if (pairs > 1) {
		mean = sum / pairs
		spread = (squares - pairs * mean ^ 2) / (pairs - 1)
		half = quantile(pairs - 1) * sqrt((spread > 0 ? spread : 0) / pairs)
		low = exp(mean - half)
		high = exp(mean + half)
	}
	p = median(plain, plains)
	s = median(shim, shims)
	r = median(raw, raws)
	printf "{\"id\": \"%s\", \"what\": \"%s\", \"mode\": \"%s\", \"where\": \"%s\", ", \
		id, what, mode, where
	printf "\"plain\": %s, \"shim\": %s, \"raw\": %s, \"rsocket\": %s, ", \
		number(p), number(s), number(r), number(median(rsocket, rsockets))
	printf "\"ratio\": %s, \"vs_raw\": %s, \"low\": %s, \"high\": %s, ", \
		number(quotient(s, p)), number(quotient(s, r)), number(low), number(high)
	printf "\"unit\": \"%s\", \"runs\": %d", unit, NR
	if (why != "")
		printf ", \"why\": \"%s\"", why
	print "}"
}
