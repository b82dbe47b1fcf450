"""From a plan to what its run needs: decoded, scheduled, compared with fleet and links."""
