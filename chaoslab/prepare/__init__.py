"""From a plan to what its run needs: decoded, scheduled, held against fleet and links."""
