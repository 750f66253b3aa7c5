#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints a model of both directions: two copies of switch.pml (a: end A sends; b: end B sends) that share
# the link and the hand-over: an end that freezes its reader gives its writer away too, and the
# descriptor leaves only when both may go. Arguments: switch.pml's options. No new link is made.
here=$(cd "$(dirname "$0")" && pwd)
names="twin|s2r|r2s|kw|kr|deaths|stalls|resends|handovers|gives|alien|killed|sst|acc|sown|sep|sbase|sx"
names="$names|snext|sack|sflush|sfr|sreply|sflushed|sdead|sclosed|sfinsent|sgone|send[01]|used[01]|giving"
names="$names|rst|cons|rep|rprep|rbase|rC|rx|rfin|rack|rhi|have|mem|fly|rdead|rconf|reof|kfin|broken"
names="$names|rend[01]|rflushed|froz|asked|rann|[sr]_[a-z]+|deliver|eof|endS|S|R"
writer='(sst@ == S_OUT || sst@ == S_DONE || (giving@ \&\& sst@ == S_KERN) ||'
writer="$writer (sclosed@ \&\& (sst@ == S_KERN || sst@ == S_PREP || sst@ == S_READY)))"
reader='(rst@ == R_OUT || (froz@ \&\& rst@ == R_KERN \&\& kr@ - rbase@ == rC@ \&\&'
reader="$reader (len(twin@) >= rann@ || full(twin@))))"
copy() { # this direction's letter, the other one's, options
	x=$1 other=$2
	shift 2
	sed -e '/^proctype World/,$d' -e '/exec failed/d' -e "s/#define HANDED (/&$writer \\&\\& /" \
		-e "s/#define S_LEAVES (/&$reader \\&\\& /" -e 's/!quiet && gives > 0/froz@ \&\& gives > 0/' \
		-e 's/#define SETTLED (/&(!froz@ || rst@ == R_OUT) \&\& /' "$here/switch.pml" |
		cpp -P "$@" - | sed -E -e "s/\b($names)\b([^@]|$)/\1_$x\2/g" -e "s/@/_$other/g"
}
a=$(copy a b -DHANDOVERS=1 -DGIVES=1 "$@")
b=$(copy b a -DHANDOVERS=1 -DGIVES=1 "$@" | # without what they share
	sed '/^mtype = {/,/};/d; /^bit up = 1/d; /^bit quiet/d; /^hidden/d')
for part in '/^inline/,$d' '/^inline/,$!d'; do
	printf '%s\n%s\n' "$a" "" | sed "$part"
	printf '%s\n' "$b" | sed "$part"
done
cpp -P "$@" - <<'EOT'
#ifndef FILL
#define FILL 0 /* start after READY, so many unread bytes in each twin, both readers frozen */
#endif
#define READY_TO(d) if :: FILL -> \
	do :: acc_##d < FILL -> twin_##d!DATA(acc_##d); acc_##d++ :: else -> break od; \
	handovers_##d = 0; froz_##d = 1; kw_##d = FILL; sown_##d = FILL; \
	sep_##d = 1; rep_##d = 1; sst_##d = S_READY; rst_##d = R_OPEN :: else fi
proctype World() {
endW:	do
	:: d_step { !quiet -> quiet = 1 }
	:: d_step { !quiet && deaths_a > 0 && up -> up = 0; deaths_a-- }
	od
}
init { atomic { READY_TO(a); READY_TO(b); run S_a(); run R_a(); run S_b(); run R_b(); run World() } }
EOT
