"""The whole asynchronous protocol between the Trainer and the Inferencer.

    Trainer                                                             Inferencer
    publishes encoders/step_*  ── news: "newest is step S" (PUB→SUB) ──>  newest() == S
                               <── files, if S is not on its disk ─────   (DEALER→ROUTER)
    newest() == S'             <── news: "newest is step S'" ──────────   publishes negatives/step_*
                               ─── files, if S' is not on its disk ───>

One kind of artefact has one publisher and any number of subscribers; both directions are the same
code. What a role says, beside its newest step, is what the other may need to wait or to delete:
the phase that it is in, the steps that it still holds, that its last product is out, that it is done.

Invariants, each kept by one module and asked for by its tests:

1.  *News may be lost.* An announcement tells the whole state and is repeated as the heartbeat, so a
    lost, repeated or overtaken one, a late joiner or a restart costs one heartbeat (``publisher``,
    ``hearing``).
2.  *Files may not.* Every frame carries its checksum, every file its digest in the manifest, and the
    manifest its digest in the announcement. What does not fit is asked for again (``transfer``).
3.  *A visible step is complete.* A fetched artefact gets its name by the rename that publishes it;
    ``newest()`` names only steps whose manifest is the announced one (``subscriber``).
4.  *Steps only grow*, whatever a restarted or overtaken publisher says, and never beyond the step that
    the reader itself has reached: that would be of a future that a resume went back from (``subscriber``).
5.  *A fetch once begun is finished*, unless its source is gone; then comes the newest. A slow line
    falls behind but never starves (``subscriber``).
6.  *Only the owner deletes*: a publisher not what is ``being_read()``, a subscriber only its copies.
7.  *Silence has a limit and a name* (``patience``).
8.  *One thread per socket*; roles talk to it through plain fields and a bell (``worker``).
9.  *Bytes from outside are data*: versioned, typed, of this run, or counted and dropped (``messages``,
    ``door``). Nothing but loopback without keys (``endpoints``, ``keys``).

Order of reading: ``messages``, ``publisher``, ``subscriber``, ``transfer``; then ``opening``, which puts
them on sockets (``channel``) and a thread (``worker``).
"""

from .hearing import Peer
from .messages import START
from .opening import open_publisher, open_subscriber
from .patience import Patience, PeerLost
from .publisher import Publisher
from .subscriber import Subscriber

__all__ = ["START", "Patience", "Peer", "PeerLost", "Publisher", "Subscriber", "open_publisher", "open_subscriber"]
