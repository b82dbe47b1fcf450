"""Links by a Toxiproxy server: `links` is the entrance, `settings` what a plan may say of them."""
